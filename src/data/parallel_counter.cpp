// Counts the pieces of texts on several threads. Texts are cut into parts that end where a piece
// begins whatever follows, so that parts can be counted apart. The calling thread reads a batch of
// parts; then each counter takes one part after the other.

#include "data/parallel_counter.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "data/record_reader.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/host_memory.h"
#include "strata/base/utf8.h"

namespace strata {
namespace {

constexpr std::size_t kCountedBytes = 4 * kMiB;
constexpr std::size_t kMostPartBytes = kGiB;

/// Returns the bytes of memory that the host still has for this process.
std::size_t free_memory_bytes() {
  const HostMemory memory = read_host_memory();
  std::size_t bytes = memory.available_bytes.value_or(std::numeric_limits<std::size_t>::max());
  if (memory.group) bytes = std::min(bytes, memory.group->free_bytes);
  return bytes;
}

}  // namespace

ParallelCounter::ParallelCounter(const TrainTokenizerOptions& options,
                                 std::function<void()> after_batch)
    : pool_(options.threads),
      limit_bytes_(options.memory_limit_bytes > 0 ? options.memory_limit_bytes
                                                  : free_memory_bytes()),
      read_(kCountedBytes),
      text_field_(options.text_field),
      after_batch_(std::move(after_batch)) {
  for (int i = 0; i < pool_.threads(); ++i) counters_.emplace_back(options.training.split);
}

void ParallelCounter::add_text(ByteStream& stream, const std::string& name) {
  std::string text;
  for (bool more = true; more;) {
    more = read_more(stream, text);
    const std::size_t cut = more ? PieceCounter::last_cut(text) : text.size();
    if (cut == 0) {
      if (text.size() < kMostPartBytes) continue;
      throw IoError(name + ": has " + format_bytes(kMostPartBytes) +
                    " without a line that begins with a letter; split it into several files");
    }
    std::string rest = text.substr(cut);
    add_part({.text = std::move(text), .end = cut, .name = name});
    text = std::move(rest);
  }
}

void ParallelCounter::add_records(ByteStream& stream, const std::string& place) {
  LineBlocks blocks(stream, place);
  for (LineBlock block = blocks.next(); !block.text.empty(); block = blocks.next()) {
    const std::size_t end = block.text.size();
    add_part(
        {.text = std::move(block.text), .end = end, .first_line = block.first_line, .name = place});
  }
}

bool ParallelCounter::read_more(ByteStream& stream, std::string& text) {
  std::size_t end = 0;
  while (end < read_.size()) {
    const std::size_t bytes = stream.read(std::span(read_).subspan(end));
    if (bytes == 0) break;
    end += bytes;
  }
  text.append(read_.data(), end);
  return end > 0;
}

PieceCounter ParallelCounter::finish() {
  count_batch();
  while (counters_.size() > 1) {
    counters_[0].add(counters_.back());
    counters_.pop_back();
  }
  return std::move(counters_[0]);
}

void ParallelCounter::add_part(Part part) {
  batch_bytes_ += part.text.size();
  parts_.push_back(std::move(part));
  if (batch_bytes_ >= kCountedBytes * counters_.size()) count_batch();
}

void ParallelCounter::count_batch() {
  std::atomic<std::size_t> next = 0;
  std::atomic<std::size_t> bytes = 0;
  pool_.parallel_for(std::ssize(counters_), 1, [&](std::int64_t begin, std::int64_t) {
    PieceCounter& counter = counters_[static_cast<std::size_t>(begin)];
    for (std::size_t i = next++; i < parts_.size(); i = next++) bytes += count(parts_[i], counter);
  });
  text_bytes_ += bytes;
  parts_.clear();
  batch_bytes_ = 0;
  check_memory();
  after_batch_();
}

std::size_t ParallelCounter::count(const Part& part, PieceCounter& counter) const {
  const std::string_view text(part.text);
  if (part.first_line == 0) {
    if (valid_utf8_bytes(text.substr(0, part.end)) != part.end) {
      throw IoError(part.name + ": is not valid UTF-8; convert it, as with iconv");
    }
    counter.count(text, part.end);
    return part.end;
  }
  std::size_t bytes = 0;
  for_each_record({.text = text, .first_line = part.first_line, .place = part.name},
                  {.field = text_field_},
                  [&](std::string_view, const Record& record, std::int64_t) {
                    if (record.is_conversation()) {
                      throw IoError(
                          "is a conversation, and tokenizers are trained on texts: name a member "
                          "that is one by --text-field");
                    }
                    counter.count(record.text, record.text.size());
                    bytes += record.text.size();
                  });
  return bytes;
}

void ParallelCounter::check_memory() const {
  std::size_t bytes = 0;
  for (const PieceCounter& counter : counters_) bytes += counter.memory_bytes();
  if (bytes <= limit_bytes_) return;
  throw OutOfMemory("tokenizer train: the distinct pieces of the texts so far would take " +
                    format_bytes(bytes) + ", and there are " + format_bytes(limit_bytes_) +
                    ". Give fewer files: a sample of a few GB makes nearly the same tokenizer");
}

}  // namespace strata
