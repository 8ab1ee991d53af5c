// Tests that bytes come back from their ids, and that the hash of the tokenizer stays what files
// have.

#include "strata/data/byte_tokenizer.h"

#include "strata/base/error.h"
#include "support/catch.h"

namespace strata {

TEST_CASE("every byte is its own id and comes back") {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text.push_back(static_cast<char>(byte));
  std::vector<std::int32_t> ids{42};
  ByteTokenizer::encode(text, ids);
  REQUIRE(ids.size() == 257);
  CHECK(ids[0] == 42);  // appended to
  for (int byte = 0; byte < 256; ++byte) CHECK(ids[static_cast<std::size_t>(byte) + 1] == byte);
  CHECK(ByteTokenizer::decode(std::span(ids).subspan(1)) == text);
}

TEST_CASE("ends of documents have no text, and other ids are refused") {
  CHECK(ByteTokenizer::decode(std::vector<std::int32_t>{'a', 256, 'b'}) == "ab");
  REQUIRE_THROWS_AS(ByteTokenizer::decode(std::vector<std::int32_t>{257}), IoError);
  REQUIRE_THROWS_AS(ByteTokenizer::decode(std::vector<std::int32_t>{-1}), IoError);
}

TEST_CASE("the tokenizer hash never changes") {
  // FNV-1a of the definition, then the SplitMix64 finaliser; computed outside of this program.
  CHECK(ByteTokenizer::hash() == 0x7632823df878069full);
}

}  // namespace strata
