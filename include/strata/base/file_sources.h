// Which files something is read from, and in which shares: the value of a config key such as
// data.train. A value, without any open file; only expand_patterns() looks at the file system.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace strata {

/// Files that are read one behind another.
struct FileSource {
  std::vector<std::string> files{};
  std::optional<double> weight{};  ///< share of the source, in any unit; absent: it is the only one
  bool operator==(const FileSource&) const = default;
};

/// All sources of a key. In JSON it is a path, a list of paths, which are one source, or a list of
/// objects {"path": a path or a list of them, "weight": a number}.
struct FileSources {
  std::vector<FileSource> list{};

  FileSources() = default;
  /// One file, or none if the name is empty. Not explicit, since most keys name one file.
  FileSources(const std::string& file);                              // NOLINT
  FileSources(const char* file) : FileSources(std::string(file)) {}  // NOLINT

  [[nodiscard]] bool empty() const { return list.empty(); }
  void clear() { list.clear(); }
  /// Returns the names of all files, in order.
  [[nodiscard]] std::vector<std::string> files() const;
  /// Returns the file's name, or how many files there are in how many sources.
  [[nodiscard]] std::string text() const;
  bool operator==(const FileSources&) const = default;
};

/// Puts the names that match in place of names that are patterns of the shell (`*`, `?`, `[...]`),
/// in the order of their bytes. What is the name of a file is taken as it is, and so is a pattern
/// that nothing matches.
void expand_patterns(FileSources& sources);

}  // namespace strata
