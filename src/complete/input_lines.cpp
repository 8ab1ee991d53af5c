// Standard input is read once, as a whole, because it cannot be read again.

#include "strata/complete/input_lines.h"

#include <filesystem>
#include <iostream>
#include <iterator>
#include <system_error>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/file.h"

namespace strata {

InputLines::InputLines(const std::string& file, bool records)
    : name_(file), records_(records || file.ends_with(".jsonl")) {
  if (file == "-") {
    text_.assign(std::istreambuf_iterator<char>(std::cin), {});
    name_ = "standard input";
    memory_.str(text_);
    return;
  }
  if (!records_) {
    text_ = read_text_file(file, 64 * kMiB);
    return;
  }
  std::error_code error;
  if (std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file, error)) {
    throw IoError(file + ": is no regular file; give what comes through a pipe by --input -");
  }
  file_.emplace(file, std::ios::binary);
  if (!*file_) throw IoError(file + ": cannot be read");
}

InputLines InputLines::of_text(const std::string& text, std::string option) {
  InputLines lines;
  lines.name_ = std::move(option);
  lines.text_ = text;
  return lines;
}

std::istream& InputLines::stream() {
  return file_ ? static_cast<std::istream&>(*file_) : static_cast<std::istream&>(memory_);
}

void InputLines::rewind() {
  stream().clear();
  stream().seekg(0);
  line_ = 0;
}

std::optional<InputLine> InputLines::next() {
  std::string text;
  while (std::getline(stream(), text)) {
    ++line_;
    if (text.find_first_not_of(" \t\r") == text.npos) continue;
    return InputLine{
        .text = std::move(text), .where = name_ + ":" + std::to_string(line_), .number = line_};
  }
  return std::nullopt;
}

}  // namespace strata
