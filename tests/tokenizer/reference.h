// What scripts/golden/make_tokenizer_goldens.py wrote, and the rules by which it made its texts:
// blocks of texts, each of which has one checksum.

#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace strata::reference {

/// Returns the whole file.
[[nodiscard]] nlohmann::json load();

using Texts = std::vector<std::string>;

/// Returns every code point of a block in contexts, as one text. There are 272 blocks.
[[nodiscard]] Texts code_points(std::size_t block);

/// Returns the random texts of a block from an alphabet of symbols. There are 100 blocks.
[[nodiscard]] Texts random_texts(const std::vector<std::string>& alphabet, std::size_t block);

/// The CRC-32 of pieces, each followed by a byte that is in no UTF-8.
class Checksum {
 public:
  void add(std::string_view piece);
  [[nodiscard]] std::string hex() const;

 private:
  std::uint32_t crc_ = 0xffffffff;
};

}  // namespace strata::reference
