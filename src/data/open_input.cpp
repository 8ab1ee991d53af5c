// Looks at the beginning of a file, and opens packed files and standard input as streams.
// tokenize() and the training of tokenizers call it for each input.

#include "data/open_input.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "data/file_kind.h"
#include "data/json_list.h"
#include "data/parquet_stream.h"
#include "strata/base/error.h"
#include "strata/base/file.h"

namespace strata {

namespace {

constexpr FileKind kTableInStream{"is a Parquet table, which is read from its end",
                                  "Name the file itself, unpacked"};

bool is_of_records(InputFormat format) {
  return format != InputFormat::kAuto && format != InputFormat::kText;
}

/// Returns whether a file is a table whose rows can be read, or by its name should be one.
bool is_readable_table(const TextFile& file, std::string_view beginning) {
  const bool promised = file.name.ends_with(".parquet");
  return (promised || (file.named && is_parquet(beginning))) && reads_parquet();
}

OpenedInput open_table(const TextFile& file, const RecordRules& rules) {
  OpenedInput opened{.is_records = true, .unit = RecordUnit::kRow};
  opened.stream = std::make_unique<PeekStream>(lines_of_parquet(file.name, rules));
  return opened;
}

/// Throws for what a line of would be refused as no JSON, though the file is plainly something
/// else.
void refuse_other_than_records(const TextFile& file, std::string_view beginning) {
  auto kind = recognize_utf16(beginning);
  if (!kind) kind = recognize_format(beginning);
  if (!kind && !recognize_json(beginning)) kind = table_by_name(without_packing(file.name));
  if (kind) refuse_kind(*kind, shown_name(file.name));
}

}  // namespace

OpenedInput open_input(const TextFile& file, const RecordRules& rules) {
  const InputFormat format = rules.format;
  const std::string_view name = without_packing(file.name);
  OpenedInput opened{.is_records = is_of_records(format)};
  bool packed = file.name == kStandardInput;
  std::string beginning;
  if (!packed) {
    beginning = read_beginning(InputFile(file.name));
    if (format != InputFormat::kText && is_readable_table(file, beginning)) {
      return open_table(file, rules);
    }
    packed = is_packed(beginning) && (file.named || name.size() < file.name.size());
  }
  if (packed) {
    opened.stream = open_byte_stream(file.name);
    beginning = opened.stream->peek(kBeginningBytes);
    if (is_parquet(beginning) && reads_parquet())
      refuse_kind(kTableInStream, shown_name(file.name));
  }
  if (format == InputFormat::kAuto) {
    opened.is_records = name.ends_with(".jsonl") || name.ends_with(".ndjson") ||
                        (file.named && recognize_json(beginning));
  }
  if (!opened.is_records) return opened;
  refuse_other_than_records(file, beginning);
  if (!opened.stream) opened.stream = open_byte_stream(file.name);
  if (begins_like_json_list(beginning)) {
    opened.unit = RecordUnit::kEntry;
    opened.stream = std::make_unique<PeekStream>(
        lines_of_json_list(std::move(opened.stream), shown_name(file.name)));
  }
  return opened;
}

std::string record_place(const std::string& file, RecordUnit unit) {
  const std::string name = shown_name(file);
  switch (unit) {
    case RecordUnit::kLine: return name + ":";
    case RecordUnit::kEntry: return name + ": record ";
    case RecordUnit::kRow: return name + ": row ";
  }
  return name;
}

void refuse_vain_field(InputFormat format, const std::string& text_field) {
  if (text_field.empty() || format == InputFormat::kAuto || format == InputFormat::kRecords) return;
  throw ConfigError(
      "--text-field: names a member of records that is a text, and by --format inputs are none; "
      "leave out one of them");
}

}  // namespace strata
