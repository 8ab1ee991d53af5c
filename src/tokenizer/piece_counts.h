// How often each piece of a text occurs: what training a tokenizer looks at instead of the text. A
// table from the bytes of pieces to counts, which grows with the distinct pieces only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tokenizer/piece_key.h"

namespace strata {

/// Counts of pieces; one thread at a time uses a table.
class PieceCounts {
 public:
  struct Entry {
    PieceKey key{};
    const char* text = nullptr;  ///< in the table's own memory
    std::uint64_t bytes = 0;     ///< of the piece; 0 if the entry is free
    std::uint64_t count = 0;
    [[nodiscard]] std::string_view piece() const { return {text, bytes}; }
  };

  PieceCounts();

  /// Adds occurrences of a piece that is not empty.
  void add(std::string_view piece, std::uint64_t count = 1);
  void add(const PieceCounts& other);

  /// Returns the number of distinct pieces.
  [[nodiscard]] std::size_t size() const { return size_; }
  /// Returns the bytes of the distinct pieces.
  [[nodiscard]] std::size_t text_bytes() const { return text_bytes_; }
  /// Returns the bytes of memory that the table holds.
  [[nodiscard]] std::size_t memory_bytes() const;

  /// Calls `use(const Entry&)` for each piece, in an order that depends on how they were added.
  template <class Use>
  void for_each(Use&& use) const {
    for (const Entry& entry : entries_) {
      if (entry.bytes > 0) use(entry);
    }
  }

 private:
  [[nodiscard]] std::size_t find(std::string_view piece, const PieceKey& key) const;
  void grow();
  [[nodiscard]] const char* keep(std::string_view piece);

  std::vector<Entry> entries_;  ///< open addressing, a power of two of them
  int shift_ = 0;
  std::size_t size_ = 0;
  std::size_t text_bytes_ = 0;
  std::vector<std::unique_ptr<char[]>> blocks_{};  ///< of the pieces' texts
  std::size_t block_left_ = 0;                     ///< free bytes at the end of the last block
  char* block_end_ = nullptr;
  std::size_t block_bytes_ = 0;  ///< of all blocks
};

}  // namespace strata
