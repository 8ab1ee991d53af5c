// Where the tests of Files work: a folder of this machine, or one in memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/random.h"
#include "strata/checkpoint/files.h"

namespace strata {

/// An empty folder of this machine that is removed at the end of the test.
class ScratchFolder {
 public:
  explicit ScratchFolder(
      const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string name = parent / "strata_checkpoint_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error(name + " cannot be made");
    path_ = name;
    // Tests that give up root look into it as other users do.
    std::filesystem::permissions(path_, std::filesystem::perms(0755));
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Bytes that begin so many bytes behind a multiple of kFileAlignment in memory.
class PlacedBytes {
 public:
  PlacedBytes(std::size_t bytes, std::size_t behind, std::uint64_t seed)
      : memory_(bytes + behind + kFileAlignment) {
    void* begin = memory_.data();
    std::size_t room = memory_.size();
    std::align(kFileAlignment, bytes + behind, begin, room);
    bytes_ = std::span(static_cast<std::byte*>(begin) + behind, bytes);
    for (std::size_t i = 0; i < bytes; i += 8) {
      const std::uint64_t word = random_bits(seed, 0, i / 8);
      std::memcpy(&bytes_[i], &word, std::min<std::size_t>(8, bytes - i));
    }
  }
  [[nodiscard]] std::span<std::byte> get() const { return bytes_; }
  [[nodiscard]] std::string text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

 private:
  std::vector<std::byte> memory_;
  std::span<std::byte> bytes_;
};

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Returns what the IoError says that `action` throws.
template <class Action>
std::string io_error_of(const Action& action) {
  try {
    action();
  } catch (const IoError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace strata
