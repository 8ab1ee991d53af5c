// Looks at the beginning of a file, and opens packed files and standard input as streams.
// tokenize() and the training of tokenizers call it for each input.

#include "data/open_input.h"

#include <string>
#include <string_view>

#include "data/file_kind.h"
#include "strata/base/error.h"
#include "strata/base/file.h"

namespace strata {

OpenedInput open_input(const TextFile& file, InputFormat format) {
  const std::string_view name = without_packing(file.name);
  OpenedInput opened{.is_records = format == InputFormat::kRecords};
  bool packed = file.name == kStandardInput;
  std::string beginning;
  if (!packed) {
    beginning = read_beginning(InputFile(file.name));
    packed = is_packed(beginning) && (file.named || name.size() < file.name.size());
  }
  if (packed) {
    opened.stream = open_byte_stream(file.name);
    beginning = opened.stream->peek(kBeginningBytes);
  }
  if (format == InputFormat::kAuto) {
    opened.is_records = name.ends_with(".jsonl") || name.ends_with(".ndjson") ||
                        (file.named && is_like_json_lines(beginning));
  }
  if (opened.is_records && !opened.stream) opened.stream = open_byte_stream(file.name);
  return opened;
}

void refuse_vain_field(InputFormat format, const std::string& text_field) {
  if (format != InputFormat::kText || text_field.empty()) return;
  throw ConfigError(
      "--text-field: names a member of records, and --format text takes no input for "
      "records; leave out one of them");
}

}  // namespace strata
