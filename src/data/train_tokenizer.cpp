// Trains a tokenizer on files: opens the inputs, has their pieces counted, and learns merges from
// the counts.

#include "strata/data/train_tokenizer.h"

#include <string>

#include "data/open_input.h"
#include "data/parallel_counter.h"
#include "data/text_survey.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/base/utf8.h"

namespace strata {
namespace {

void check_training_options(const TrainTokenizerOptions& options) {
  if (options.inputs.empty())
    throw ConfigError("tokenizer train: name at least one file or folder");
  check_training(options.training);
  for (const std::string& token : options.training.special) {
    if (valid_utf8_bytes(token) != token.size()) {
      throw ConfigError("--special: " + printable_name(shortened(token)) + " is not UTF-8");
    }
  }
}

/// Takes all inputs to the counter.
class Counting {
 public:
  Counting(const TrainTokenizerOptions& options, const std::vector<TextFile>& files)
      : options_(options), counter_(options, [this] { report(); }) {
    for (const TextFile& file : files) progress_.bytes += file.bytes;
  }

  void add(const TextFile& file) {
    OpenedInput input = open_input(file, {.field = options_.text_field, .format = options_.format});
    const std::string name = shown_name(file.name);
    if (!input.is_records) {
      const auto not_text = other_kind(file, input.stream.get());
      if (not_text && file.named) {
        refuse_kind(*not_text, name);
      }
      if (not_text) return log::warn("tokenizer train: left out {}: {}", name, not_text->what);
      if (!input.stream) input.stream = open_byte_stream(file.name);
    }
    stream_ = input.stream.get();
    if (input.is_records) {
      counter_.add_records(*input.stream, record_place(file.name, input.unit));
    } else {
      counter_.add_text(*input.stream, name);
    }
    done_bytes_ += stream_->consumed();
    stream_ = nullptr;
    ++files_;
  }

  /// Returns how many inputs were counted.
  [[nodiscard]] std::int64_t files() const { return files_; }
  [[nodiscard]] const ParallelCounter& counter() const { return counter_; }

  [[nodiscard]] PieceCounter finish() { return counter_.finish(); }

  void report() {
    progress_.bytes_done = done_bytes_ + (stream_ != nullptr ? stream_->consumed() : 0);
    if (options_.progress) options_.progress(progress_);
  }
  void report_ids(std::int64_t ids) {
    progress_.ids = ids;
    report();
  }

 private:
  /// Returns what other than text an input is: a plain file is read through, of a stream the
  /// beginning tells.
  std::optional<FileKind> other_kind(const TextFile& file, PeekStream* stream) {
    const bool as_text = options_.format == InputFormat::kText;
    if (stream == nullptr) {
      return survey_text(InputFile(file.name), as_text, [this] { report(); }).not_text;
    }
    if (as_text) return std::nullopt;
    return other_than_text(stream->peek(kBeginningBytes), without_packing(file.name));
  }

  const TrainTokenizerOptions& options_;
  TrainTokenizerProgress progress_{};
  const PeekStream* stream_ = nullptr;  ///< the input that is counted
  std::size_t done_bytes_ = 0;          ///< of inputs before it
  std::int64_t files_ = 0;
  ParallelCounter counter_;
};

}  // namespace

TrainedOnFiles train_tokenizer(const TrainTokenizerOptions& options) {
  check_training_options(options);
  refuse_vain_field(options.format, options.text_field);
  const std::vector<TextFile> files = find_text_files(options.inputs, options.extensions);
  Counting counting(options, files);
  for (const TextFile& file : files) counting.add(file);
  const PieceCounter counts = counting.finish();
  TrainedOnFiles made;
  made.files = counting.files();
  made.bytes = counting.counter().text_bytes();
  if (made.bytes == 0) {
    throw IoError(
        "tokenizer train: no text was found in the inputs. Name other files, or other "
        "extensions");
  }
  made.pieces = counts.pieces();
  made.tokenizer = train_tokenizer(counts, options.training,
                                   [&](std::int64_t ids) { counting.report_ids(ids); });
  return made;
}

}  // namespace strata
