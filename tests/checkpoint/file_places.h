// Bytes for the tests of Files, placed in memory as they ask, and the errors of Files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/random.h"
#include "strata/checkpoint/files.h"

namespace strata {

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
