// A file that gets its name only when it is whole: whoever writes a file at one go, and not line by
// line, writes it through here.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace strata {

/// Throws IoError if something other than a regular file has the name (a folder, pipe, device or
/// symbolic link), or if the system takes no such name.
void require_replaceable(const std::string& name);

/// A buffered file under a temporary name beside the final one; the destructor removes it unless it
/// was published. What cannot be made throws IoError, what cannot be written (a full disk) plain
/// Error, since no other input would help; both leave an earlier file as it was.
class OutputFile {
 public:
  /// Throws as require_replaceable() does.
  explicit OutputFile(std::string name);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, std::size_t bytes);
  /// Goes back to the beginning of the file.
  void rewind();
  /// Brings everything to the disk. Nothing may be written after it.
  void close();
  /// Gives the closed file its name, replacing an earlier file.
  void publish();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string name_;
  std::string temporary_;
  std::FILE* stream_ = nullptr;
  bool published_ = false;
};

/// Writes a whole file through an OutputFile, and throws as that does.
void write_file(const std::string& name, std::string_view text);

}  // namespace strata
