// Tests that the content of a source is what its tokens are, however they are stored, and that what
// is other data has another one.

#include "strata/data/source_content.h"

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strata/data/joined_tokens.h"
#include "strata/data/open_source.h"
#include "support/catch.h"
#include "support/listed_tokens.h"
#include "support/scratch_folder.h"

namespace strata {

namespace {

using Ids = std::vector<std::int32_t>;

Ids counted_ids(std::int64_t count, std::int64_t first = 0) {
  Ids ids;
  for (std::int64_t i = first; i < first + count; ++i) {
    ids.push_back(static_cast<std::int32_t>(i * 31 % 997));
  }
  return ids;
}

/// Writes a token file of documents of 100 tokens.
std::unique_ptr<TokenSource> written(const std::string& file, const Ids& ids, TokenType type,
                                     std::uint64_t tokenizer = 7) {
  TokenFileWriter writer(file, {.type = type, .vocabulary = 1000, .tokenizer_hash = tokenizer});
  for (std::size_t i = 0; i < ids.size(); ++i) {
    writer.append(std::span(ids).subspan(i, 1));
    if (i % 100 == 99) writer.end_document();
  }
  writer.close();
  writer.publish();
  return TokenFile::open(file);
}

}  // namespace

TEST_CASE("the content of a source depends neither on its name, nor on how ids are stored") {
  const ScratchFolder folder;
  const Ids ids = counted_ids(1000);
  const SourceContent content = content_of(*written(folder.file("a.bin"), ids, TokenType::kU16));
  CHECK(content.tokens == 1000);
  CHECK(content.documents == 10);
  CHECK(content.tokenizer_hash == 7);
  CHECK(content_of(*written(folder.file("b.bin"), ids, TokenType::kU32)) == content);
  // Nor on the cut into files, between documents.
  std::vector<std::unique_ptr<TokenSource>> parts;
  parts.push_back(written(folder.file("c.bin"), counted_ids(300), TokenType::kU16));
  parts.push_back(written(folder.file("d.bin"), counted_ids(700, 300), TokenType::kU32));
  const JoinedTokens joined(std::move(parts));
  CHECK(content_of(joined) == content);
}

TEST_CASE("a digest is what earlier programs have written into checkpoints") {
  CHECK(content_of(ListedTokens({})).digest == 0xc3817c016ba4ff30U);
  CHECK(content_of(ListedTokens(counted_ids(10'000))).digest == 0x3280fae12bfd3831U);
  CHECK(content_of(ListedTokens(counted_ids(1'000'000))).digest == 0x102e01e058902a7eU);
}

TEST_CASE("another token, loss or end of a document is another digest") {
  const ScratchFolder folder;
  const Ids ids = counted_ids(10'000);
  std::set<std::uint64_t> digests{content_of(ListedTokens(ids)).digest};
  for (const std::size_t at : {0UL, 4095UL, 4096UL, 9999UL}) {
    Ids other = ids;
    ++other[at];
    digests.insert(content_of(ListedTokens(other)).digest);
  }
  std::vector<std::uint8_t> loss(ids.size(), 1);
  CHECK(content_of(ListedTokens(ids, -1, loss)).digest == content_of(ListedTokens(ids)).digest);
  loss[5000] = 0;
  digests.insert(content_of(ListedTokens(ids, -1, loss)).digest);
  digests.insert(content_of(*written(folder.file("a.bin"), ids, TokenType::kU16)).digest);
  CHECK(digests.size() == 7);
}

TEST_CASE("of a long source the digest is of places from its first to its last token") {
  const Ids ids = counted_ids(1'000'000);
  const std::uint64_t digest = content_of(ListedTokens(ids)).digest;
  const auto changed = [&](std::size_t at) {
    Ids other = ids;
    ++other[at];
    return content_of(ListedTokens(other)).digest != digest;
  };
  CHECK(changed(0));
  CHECK(changed(999'999));
  CHECK(changed(15'808));   // the first token of the second place
  CHECK(!changed(15'807));  // and the one before it, which is in no place
  Ids grown = ids;
  grown.push_back(1);
  CHECK(content_of(ListedTokens(grown)).digest != digest);
}

}  // namespace strata
