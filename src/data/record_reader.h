// Takes streams apart: into blocks of whole lines, and lines of JSON into what a record holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "data/byte_stream.h"
#include "data/foreign_record.h"
#include "strata/base/error.h"
#include "strata/data/tokenize.h"

namespace strata {

/// Lines that stand behind each other, each with its end but perhaps the last of a stream.
struct LineBlock {
  std::string text{};
  std::int64_t first_line = 1;
};

/// Cuts a stream into blocks of about 1 MiB where lines end.
class LineBlocks {
 public:
  /// In messages `place` stands before the number of a line, as in RecordLines.
  LineBlocks(ByteStream& stream, std::string place) : stream_(stream), place_(std::move(place)) {}
  /// Returns the next block; an empty one at the end. Throws IoError for a line above 64 MiB.
  [[nodiscard]] LineBlock next();

 private:
  ByteStream& stream_;
  std::string place_;
  std::string rest_{};
  std::int64_t line_ = 1;
};

/// Returns all of a stream; throws IoError if it has more than `most_bytes`.
[[nodiscard]] std::string read_stream(ByteStream& stream, const std::string& name,
                                      std::size_t most_bytes);

/// What a line with a record holds.
struct Record {
  RecordKind kind = RecordKind::kText;
  std::string text{};  ///< of kText: the document
  [[nodiscard]] bool is_conversation() const { return kind != RecordKind::kText; }
};

/// What records are looked for.
struct RecordRules {
  /// The member that is the document. Empty: a record is a conversation or, else, its member "text"
  /// the document, or it is one of ShareGPT's or Alpaca's.
  std::string field{};
  InputFormat format = InputFormat::kAuto;  ///< kShareGpt, kAlpaca, kPairs: every record is
};

/// Reads the JSON object that a line holds. Throws IoError, without file and line, if it holds no
/// such object, the member is no text, or has a zero byte.
[[nodiscard]] Record read_record(std::string_view line, const RecordRules& rules);

/// Lines with records.
struct RecordLines {
  std::string_view text;
  std::int64_t first_line = 1;
  std::string place;  ///< stands before the number of a line: see record_place()
};

/// Calls `on_record` for each record of lines; blank lines are passed over. What read_record() and
/// `on_record` throw as IoError gets the place, and goes to `on_bad`, which says whether to go on;
/// without `on_bad` it is thrown.
void for_each_record(const RecordLines& lines, const RecordRules& rules,
                     const std::function<void(std::string_view json, const Record& record,
                                              std::int64_t line)>& on_record,
                     const std::function<bool(const IoError& bad)>& on_bad = nullptr);

}  // namespace strata
