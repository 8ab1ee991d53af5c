// Takes streams apart: into blocks of whole lines, and lines of JSON into what a record holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "data/byte_stream.h"

namespace strata {

/// Lines that stand behind each other, each with its end but perhaps the last of a stream.
struct LineBlock {
  std::string text{};
  std::int64_t first_line = 1;
};

/// Cuts a stream into blocks of about 1 MiB where lines end.
class LineBlocks {
 public:
  /// Messages call the stream `name`.
  LineBlocks(ByteStream& stream, std::string name) : stream_(stream), name_(std::move(name)) {}
  /// Returns the next block; an empty one at the end. Throws IoError for a line above 64 MiB.
  [[nodiscard]] LineBlock next();

 private:
  ByteStream& stream_;
  std::string name_;
  std::string rest_{};
  std::int64_t line_ = 1;
};

/// Returns all of a stream; throws IoError if it has more than `most_bytes`.
[[nodiscard]] std::string read_stream(ByteStream& stream, const std::string& name,
                                      std::size_t most_bytes);

/// What a line with a record holds.
struct Record {
  bool is_conversation = false;  ///< it has "messages", or "prompt" and "completion"
  std::string text{};            ///< else: the document
};

/// Reads the JSON object that a line holds. The document is its member `field`; if that is empty,
/// the record is a conversation or else its member "text" the document. Throws IoError, without
/// file and line, if it holds no such object or the member is no text.
[[nodiscard]] Record read_record(std::string_view line, const std::string& field);

/// Calls `on_record` for each record of lines, the first of which is `first_line`; blank lines are
/// passed over. What read_record() and `on_record` throw as IoError gets `name` and line.
void for_each_record(std::string_view lines, std::int64_t first_line, const std::string& name,
                     const std::string& field,
                     const std::function<void(std::string_view json, const Record& record,
                                              std::int64_t line)>& on_record);

}  // namespace strata
