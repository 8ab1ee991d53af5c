// A file of completions, one a line, that can be gone on with after the process was killed.
// `generate --output` writes it, and what is in it already need not be drawn again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <utility>

namespace strata {

/// What becomes of a file that is there already.
enum class OldOutput : std::uint8_t { kRefuse, kReplace, kResume };

/// Lines of JSON, each written whole. One thread uses it.
class CompletionFile {
 public:
  /// Looks at what is there. With kResume it reads which (id, sample) are in the file, and cuts off
  /// a last line that was not written to its end. Throws ConfigError if there is a file and
  /// kRefuse, or if a line of it is none of these; IoError if it cannot be read.
  CompletionFile(std::filesystem::path path, OldOutput old);
  ~CompletionFile();
  CompletionFile(const CompletionFile&) = delete;
  CompletionFile& operator=(const CompletionFile&) = delete;

  [[nodiscard]] bool has(const std::string& id, std::int64_t sample) const {
    return there_.contains({id, sample});
  }
  [[nodiscard]] std::size_t found() const { return there_.size(); }
  /// Makes the file, or opens it: with kReplace what was in it is gone from now on. Throws IoError.
  void open();
  /// Appends a line in one call, so that whoever kills the process leaves at most one torn line.
  void write(const std::string& line);

 private:
  void read_lines();

  std::filesystem::path path_;
  OldOutput old_;
  int descriptor_ = -1;
  std::set<std::pair<std::string, std::int64_t>> there_;
};

}  // namespace strata
