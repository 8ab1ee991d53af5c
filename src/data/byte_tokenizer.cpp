// Encodes and decodes byte by byte. Any bytes are taken here; callers check that they are text.

#include "strata/data/byte_tokenizer.h"

#include "data/text_hash.h"
#include "strata/base/error.h"

namespace strata {

std::uint64_t ByteTokenizer::hash() { return hash_text(kDefinition); }

void ByteTokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids) {
  ids.reserve(ids.size() + text.size());
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
}

std::string ByteTokenizer::decode(std::span<const std::int32_t> ids) {
  std::string text;
  text.reserve(ids.size());
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= kVocabulary) {
      throw IoError("token id " + std::to_string(id) + " is not one of the byte tokenizer's " +
                    std::to_string(kVocabulary));
    }
    if (id != kEndOfDocument) text.push_back(static_cast<char>(id));
  }
  return text;
}

}  // namespace strata
