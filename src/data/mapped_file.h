#pragma once

#include <cstddef>
#include <string>

namespace strata {

/// A whole file in memory, read-only. Throws IoError for what cannot be mapped.
class MappedFile {
 public:
  explicit MappedFile(const std::string& file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// Null for an empty file.
  [[nodiscard]] const std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace strata
