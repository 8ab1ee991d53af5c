#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

/// The built-in tokenizer: ids 0..255 are the bytes of the text, 256 ends a document.
struct ByteTokenizer {
  static constexpr std::int32_t kVocabulary = 257;
  static constexpr std::int32_t kEndOfDocument = 256;
  /// What the hash is taken of: it changes whenever an id changes its meaning.
  static constexpr std::string_view kDefinition = "strata byte tokenizer 1: 0-255 bytes, 256 end";

  [[nodiscard]] static std::uint64_t hash();
  /// Appends one id a byte; no end of document.
  static void encode(std::string_view text, std::vector<std::int32_t>& ids);
  /// The bytes; ends of documents are left out. Throws IoError for an id outside of the vocabulary.
  [[nodiscard]] static std::string decode(std::span<const std::int32_t> ids);
};

}  // namespace strata
