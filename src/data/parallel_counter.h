// Counts the pieces of many texts on several threads, for training a tokenizer. The counts do not
// depend on how many threads there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/byte_stream.h"
#include "strata/base/thread_pool.h"
#include "strata/data/train_tokenizer.h"
#include "strata/tokenizer/train_tokenizer.h"

namespace strata {

class ParallelCounter {
 public:
  /// Calls `after_batch` now and then, on the calling thread; what it throws ends the work.
  ParallelCounter(const TrainTokenizerOptions& options, std::function<void()> after_batch);

  /// Adds a stream that is one text. Messages call it `name`. Throws IoError if it cannot be read,
  /// is not UTF-8 or has a GiB without a line that begins with a letter; OutOfMemory if the pieces
  /// so far take more than options.memory_limit_bytes.
  void add_text(ByteStream& stream, const std::string& name);
  /// Adds a stream with a record on each line, each of which has a text; in messages `place` stands
  /// before the number of one. Throws as add_text() and for_each_record() do.
  void add_records(ByteStream& stream, const std::string& place);
  /// Returns the counts of all texts.
  [[nodiscard]] PieceCounter finish();
  /// Returns the bytes of all texts so far.
  [[nodiscard]] std::size_t text_bytes() const { return text_bytes_; }

 private:
  struct Part {
    std::string text;
    std::size_t end = 0;          ///< what is behind is only there to be looked at
    std::int64_t first_line = 0;  ///< of records; 0: it is text
    std::string name{};           ///< of the input; of records their place
  };

  /// Appends about as many bytes of a stream as read_ has, and returns whether there were any.
  bool read_more(ByteStream& stream, std::string& text);
  void add_part(Part part);
  void count_batch();
  /// Returns the bytes of the texts in a part.
  std::size_t count(const Part& part, PieceCounter& counter) const;
  void check_memory() const;

  ThreadPool pool_;
  std::vector<PieceCounter> counters_{};
  std::size_t limit_bytes_;
  std::vector<char> read_;  ///< what is read into: parts of small files stay small
  std::string text_field_;
  std::function<void()> after_batch_;
  std::vector<Part> parts_{};
  std::size_t batch_bytes_ = 0;
  std::size_t text_bytes_ = 0;
};

}  // namespace strata
