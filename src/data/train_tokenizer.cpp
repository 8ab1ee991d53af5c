// Files are read in parts that end where a piece begins whatever follows, so that parts can be
// counted apart. The calling thread reads a batch of parts; then each counter takes one part after
// the other.

#include "strata/data/train_tokenizer.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "data/text_files.h"
#include "data/text_survey.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/host_memory.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/base/thread_pool.h"
#include "strata/data/tokenize.h"

namespace strata {
namespace {

constexpr std::size_t kReadBytes = 4 * kMiB;
constexpr std::size_t kMostPartBytes = kGiB;

void check_options(const TrainTokenizerOptions& options) {
  if (options.inputs.empty())
    throw ConfigError("tokenizer train: name at least one file or folder");
  check_training(options.training);
  for (const std::string& token : options.training.special) {
    if (valid_utf8_bytes(token) != token.size()) {
      throw ConfigError("--special: " + printable(shortened(token)) + " is not UTF-8");
    }
  }
}

/// Returns the bytes of memory that the host still has for this process.
std::size_t free_memory_bytes() {
  const HostMemory memory = read_host_memory();
  std::size_t bytes = memory.available_bytes.value_or(std::numeric_limits<std::size_t>::max());
  if (memory.group) bytes = std::min(bytes, memory.group->free_bytes);
  return bytes;
}

/// Counts the pieces of texts on several threads, a batch of parts at a time.
class ParallelCounter {
 public:
  ParallelCounter(const TrainTokenizerOptions& options, std::function<void(std::size_t)> on_bytes)
      : pool_(options.threads),
        limit_bytes_(options.memory_limit_bytes > 0 ? options.memory_limit_bytes
                                                    : free_memory_bytes()),
        on_bytes_(std::move(on_bytes)) {
    for (int i = 0; i < pool_.threads(); ++i) counters_.emplace_back(options.training.split);
  }

  void add(const InputFile& file) {
    std::string text;
    for (std::size_t at = 0; at < file.bytes();) {
      const std::size_t old = text.size();
      text.resize(old + std::min<std::size_t>(kReadBytes, file.bytes() - at));
      file.read(at, std::as_writable_bytes(std::span(text).subspan(old)));
      at += text.size() - old;
      const std::size_t cut = at < file.bytes() ? PieceCounter::last_cut(text) : text.size();
      if (cut == 0) {
        require_cut(file, text.size());
        continue;
      }
      std::string rest = text.substr(cut);
      add_part({.text = std::move(text), .end = cut});
      text = std::move(rest);
    }
  }

  /// Returns the counts of all texts.
  PieceCounter finish() {
    count_batch();
    while (counters_.size() > 1) {
      counters_[0].add(counters_.back());
      counters_.pop_back();
    }
    return std::move(counters_[0]);
  }

 private:
  struct Part {
    std::string text;
    std::size_t end;  ///< what is behind is only there to be looked at
  };

  static void require_cut(const InputFile& file, std::size_t bytes) {
    if (bytes < kMostPartBytes) return;
    throw IoError(file.path().string() + ": has " + format_bytes(kMostPartBytes) +
                  " without a line that begins with a letter; split it into several files");
  }

  void add_part(Part part) {
    batch_bytes_ += part.text.size();
    parts_.push_back(std::move(part));
    if (batch_bytes_ >= kReadBytes * counters_.size()) count_batch();
  }

  void count_batch() {
    std::atomic<std::size_t> next = 0;
    pool_.parallel_for(std::ssize(counters_), 1, [&](std::int64_t begin, std::int64_t) {
      PieceCounter& counter = counters_[static_cast<std::size_t>(begin)];
      for (std::size_t i = next++; i < parts_.size(); i = next++) count(parts_[i], counter);
    });
    std::size_t ends = 0;
    for (const Part& part : parts_) ends += part.end;
    parts_.clear();
    batch_bytes_ = 0;
    check_memory();
    on_bytes_(ends);
  }

  static void count(const Part& part, PieceCounter& counter) {
    const std::string_view text(part.text);
    // It was, when it was surveyed.
    if (valid_utf8_bytes(text.substr(0, part.end)) != part.end) {
      throw IoError(
          "tokenizer train: a file has changed while it was read, and is not text any "
          "more; begin again");
    }
    counter.count(text, part.end);
  }

  void check_memory() const {
    std::size_t bytes = 0;
    for (const PieceCounter& counter : counters_) bytes += counter.memory_bytes();
    if (bytes <= limit_bytes_) return;
    throw OutOfMemory("tokenizer train: the distinct pieces of the texts so far would take " +
                      format_bytes(bytes) + ", and there are " + format_bytes(limit_bytes_) +
                      ". Give fewer files: a sample of a few GB makes nearly the same tokenizer");
  }

  ThreadPool pool_;
  std::vector<PieceCounter> counters_{};
  std::size_t limit_bytes_;
  std::function<void(std::size_t)> on_bytes_;
  std::vector<Part> parts_{};
  std::size_t batch_bytes_ = 0;
};

}  // namespace

TrainedOnFiles train_tokenizer(const TrainTokenizerOptions& options) {
  check_options(options);
  const std::vector<TextFile> files = find_text_files(options.inputs, options.extensions);
  TrainTokenizerProgress progress;
  for (const TextFile& file : files) progress.bytes += file.bytes;
  const auto report = [&] {
    if (options.progress) options.progress(progress);
  };

  TrainedOnFiles made;
  ParallelCounter counter(options, [&](std::size_t bytes) {
    progress.bytes_done += bytes;
    report();
  });
  for (const TextFile& text : files) {
    const InputFile file(text.name);
    const TextSurvey found = survey_text(file, options.as_text, report);
    if (found.not_text) {
      if (text.named) {
        throw IoError(text.name + ": " + found.not_text->what + ". " + found.not_text->remedy);
      }
      log::warn("tokenizer train: left out {}: {}", text.name, found.not_text->what);
      continue;
    }
    counter.add(file);
    ++made.files;
    made.bytes += file.bytes();
  }
  if (made.bytes == 0) {
    throw IoError(
        "tokenizer train: no text was found in the inputs. Name other files, or other "
        "extensions");
  }
  const PieceCounter counts = counter.finish();
  made.pieces = counts.pieces();
  made.tokenizer = train_tokenizer(counts, options.training, [&](std::int64_t ids) {
    progress.ids = ids;
    report();
  });
  return made;
}

}  // namespace strata
