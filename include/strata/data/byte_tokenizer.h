// The built-in tokenizer, whose ids are the bytes of the text. `strata tokenize` uses it, so that a
// folder of text is enough to train on; other tokenizers come in as files of ids. All functions are
// static and safe from any thread.
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
  /// The text whose hash names this tokenizer; it changes whenever an id changes its meaning.
  static constexpr std::string_view kDefinition = "strata byte tokenizer 1: 0-255 bytes, 256 end";

  /// Returns the hash of kDefinition, which token files carry.
  [[nodiscard]] static std::uint64_t hash();
  /// Appends one id for each byte of `text` to `ids`; it adds no end of document.
  static void encode(std::string_view text, std::vector<std::int32_t>& ids);
  /// Returns the bytes of `ids`, leaving out the ends of documents. Throws IoError for an id
  /// outside of the vocabulary.
  [[nodiscard]] static std::string decode(std::span<const std::int32_t> ids);
};

}  // namespace strata
