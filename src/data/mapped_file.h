// Gives the bytes of a file without reading it first. Token files and the tokenizer, which read
// through it, own the mapping and keep it as long as they read.
#pragma once

#include <cstddef>
#include <string>

namespace strata {

/// A whole file mapped read-only, unmapped by the destructor. The file must not become shorter
/// meanwhile: reading beyond its end would end the process.
class MappedFile {
 public:
  /// Throws IoError if the file cannot be opened or mapped, or is not a regular file.
  explicit MappedFile(const std::string& file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// Returns the first byte; null for an empty file.
  [[nodiscard]] const std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace strata
