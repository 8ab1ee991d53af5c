// What a thread remembers of the pieces that it has encoded: most words of a text have been seen
// before, and looking one up is many times cheaper than merging it again. The cache is bounded: a
// newer piece takes the place of an older one. It changes no id.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace strata {

/// A table from the bytes of short pieces to their ids, 4 MiB. Each thread has its own.
class EncodeCache {
 public:
  EncodeCache();

  /// Forgets everything if it came from another tokenizer than that with this hash.
  void use_for(std::uint64_t tokenizer_hash);

  /// One line of the table; pieces that are longer, or have more ids, are not remembered.
  struct alignas(64) Entry {
    static constexpr std::size_t kMostBytes = 24;
    static constexpr std::size_t kMostIds = 9;
    std::array<std::uint64_t, 3> key{};
    std::uint8_t bytes = 0;  ///< of the piece; 0 if the line is free
    std::uint8_t count = 0;
    std::array<std::int32_t, kMostIds> ids{};
  };

  /// Returns the line that a piece of 1 to Entry::kMostBytes bytes belongs to, and in `known`
  /// whether it holds that piece. If not, its key has been set and the caller stores the ids.
  [[nodiscard]] Entry& find(std::string_view piece, bool& known);

 private:
  std::vector<Entry> entries_;
  std::uint64_t tokenizer_hash_ = 0;
};

}  // namespace strata
