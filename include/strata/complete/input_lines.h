// What commands with a model are given to read: a file, standard input, or a text of the command
// line; as one text, or as records on lines. It can be read from the beginning as often as needed.

#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace strata {

/// A line of an input.
struct InputLine {
  std::string text;
  std::string where;        ///< "prompts.jsonl:3", for messages
  std::int64_t number = 0;  ///< from 1 on
};

class InputLines {
 public:
  /// Opens a file, or standard input if it is "-"; that is kept until the end. It has records if
  /// `records` says so or its name ends in .jsonl; else it is one text of at most 64 MiB. Throws
  /// IoError for what cannot be read.
  InputLines(const std::string& file, bool records);
  /// Takes a text that came by an option of this name.
  [[nodiscard]] static InputLines of_text(const std::string& text, std::string option);

  [[nodiscard]] bool has_records() const { return records_; }
  /// Returns the text of an input without records.
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  void rewind();
  /// Returns the next line that is not blank, or nothing after the last one.
  [[nodiscard]] std::optional<InputLine> next();

 private:
  InputLines() = default;
  [[nodiscard]] std::istream& stream();

  std::string name_;
  bool records_ = false;
  std::string text_;
  std::istringstream memory_;
  std::optional<std::ifstream> file_;
  std::int64_t line_ = 0;
};

}  // namespace strata
