// Tells what an input of `strata tokenize` or `strata tokenizer train` is taken for: a plain file
// of text, or a stream of text or of records.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/byte_stream.h"
#include "data/record_reader.h"
#include "data/text_files.h"
#include "strata/data/tokenize.h"

namespace strata {

/// What records are in their file, which is how messages name one.
enum class RecordUnit : std::uint8_t { kLine, kEntry, kRow };

struct OpenedInput {
  /// What comes out of `stream` is records, one on each line.
  bool is_records = false;
  RecordUnit unit = RecordUnit::kLine;  ///< of records: lines, entries of a list, rows of a table
  /// Null for a plain file of text, which can be read by its name.
  std::unique_ptr<PeekStream> stream{};
};

/// Tells what an input is taken for, and opens it unless it is a plain file of text. What was found
/// in a folder must also have a name that promises records, or that it is packed. Throws IoError if
/// it cannot be opened, or is to be records and is in UTF-16 or a table that this build cannot
/// read.
[[nodiscard]] OpenedInput open_input(const TextFile& file, const RecordRules& rules);

/// Returns what stands before the number of a record in messages: "a.jsonl:", "a.json: record ",
/// "a.parquet: row ".
[[nodiscard]] std::string record_place(const std::string& file, RecordUnit unit);

/// Throws ConfigError if a member of records is named where no input is taken for records.
void refuse_vain_field(InputFormat format, const std::string& text_field);

}  // namespace strata
