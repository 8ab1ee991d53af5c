// A file of lines that a run appends to while it goes on: metrics and samples. Each line is in the
// file as soon as the call returns, and a disk that is full costs lines, not the run.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace strata {

class LineFile {
 public:
  /// What becomes of lines that are in the file.
  enum class OldLines : std::uint8_t { kRemove, kKeep };
  /// Creates the file, empties it, or goes on behind its last whole line. Throws IoError if that
  /// fails, or if a link has the name.
  LineFile(std::filesystem::path file, OldLines old);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  /// Appends a line, which ends with its newline. One that cannot be written is lost as a whole;
  /// the log warns of the first, and the next ones are tried again.
  void write(std::string_view line);
  /// Returns how many lines could not be written.
  [[nodiscard]] std::int64_t lost_lines() const { return lost_lines_; }

 private:
  std::filesystem::path file_;
  int descriptor_ = -1;
  std::int64_t whole_bytes_ = 0;  ///< of the lines that are in the file
  std::int64_t lost_lines_ = 0;
};

}  // namespace strata
