// Tests that files of llm.c and Megatron give back their ids and documents. Their bytes are put
// together here by the formats' descriptions, and damaged ones must be refused.

#include "strata/data/open_source.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "support/catch.h"
#include "support/scratch_folder.h"

namespace strata {

namespace {

using Ids = std::vector<std::int32_t>;
using Ends = std::vector<std::int64_t>;

Ids all_of(const TokenSource& source) {
  Ids ids(static_cast<std::size_t>(source.size()));
  source.read(0, ids);
  return ids;
}

Ends ends_in(const TokenSource& source, std::int64_t begin, std::int64_t end) {
  Ends ends;
  source.document_ends_in(begin, end, ends);
  return ends;
}

template <class T>
std::string llmc_file(std::int32_t magic, std::int32_t version, const std::vector<T>& ids) {
  std::vector<std::int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = static_cast<std::int32_t>(ids.size());
  return bytes_of(header) + bytes_of(ids);
}

/// What an index holds; documents are ranges of sequences.
struct Index {
  std::uint64_t version = 1;
  char code = 8;
  std::vector<std::int32_t> lengths{};
  std::vector<std::int64_t> documents{};
  std::int64_t bytes_of_id = 2;
};

std::string index_file(const Index& index) {
  std::vector<std::int64_t> pointers;
  std::int64_t next = 0;
  for (const std::int32_t length : index.lengths) {
    pointers.push_back(next);
    next += length * index.bytes_of_id;
  }
  using Counts = std::vector<std::uint64_t>;
  return std::string("MMIDIDX\0\0", 9) + bytes_of(Counts{index.version}) + index.code +
         bytes_of(Counts{index.lengths.size(), index.documents.size()}) + bytes_of(index.lengths) +
         bytes_of(pointers) + bytes_of(index.documents);
}

const std::vector<std::uint16_t> kIds{3, 1, 4, 1, 5, 9, 2, 6, 50256, 5};
/// Of kIds: 3 1 | 4 1 5, 9 | nothing | 2 6 50256 5.
const Index kIndex{.lengths = {2, 3, 1, 0, 4}, .documents = {0, 1, 3, 4, 5}};

}  // namespace

TEST_CASE("token files of llm.c give back their ids, and documents by an id") {
  const ScratchFolder folder;
  const std::string narrow_ids = folder.write("a.bin", llmc_file(20240520, 1, kIds));
  const auto plain = open_token_source(narrow_ids);
  CHECK(plain->name() == narrow_ids);
  CHECK(all_of(*plain) == Ids(kIds.begin(), kIds.end()));
  CHECK(plain->vocabulary() == 0);
  CHECK(ends_in(*plain, 0, 10).empty());
  const auto documents = open_token_source(narrow_ids, {.end_of_document = 50256});
  CHECK(ends_in(*documents, 0, 10) == Ends{8, 10});
  const auto ended =
      open_token_source(narrow_ids, {.end_of_document = 50256, .document_begins = false});
  CHECK(ends_in(*ended, 0, 10) == Ends{9});
  const std::vector<std::uint32_t> wide{128000, 7, 128255};
  const std::string wide_ids = folder.write("b.bin", llmc_file(20240801, 7, wide));
  CHECK(all_of(*open_token_source(wide_ids)) == Ids{128000, 7, 128255});
  // The width of files without header says nothing of one with a header.
  CHECK(all_of(*open_token_source(wide_ids, {.type = TokenType::kU16})) == Ids{128000, 7, 128255});
}

TEST_CASE("where a separator begins documents they end before it, and the last with the file") {
  const ScratchFolder folder;
  // Two documents of llm.c's: 7 1 2 | 7 3, and bare ones with a third that has no other token.
  const std::string llmc =
      folder.write("a.bin", llmc_file(20240520, 1, std::vector<std::uint16_t>{7, 1, 2, 7, 3}));
  const auto begun = open_token_source(llmc, {.end_of_document = 7});
  CHECK(ends_in(*begun, 0, 5) == Ends{3, 5});
  CHECK(ends_in(*begun, 0, 3) == Ends{3});
  CHECK(ends_in(*begun, 0, 2).empty());
  CHECK(ends_in(*begun, 3, 4).empty());
  CHECK(ends_in(*begun, 3, 5) == Ends{5});
  CHECK(ends_in(*begun, 2, 2).empty());
  const std::string bare = folder.write("b.bin", bytes_of(Ids{7, 1, 2, 7, 7}));
  ForeignFormat foreign{.type = TokenType::kU32, .end_of_document = 7};
  CHECK(ends_in(*open_token_source(bare, foreign), 0, 5) == Ends{1, 4, 5});
  foreign.document_begins = true;
  CHECK(ends_in(*open_token_source(bare, foreign), 0, 5) == Ends{3, 4, 5});
  // More than is read at once.
  std::vector<std::uint16_t> many(10'000, 1);
  Ends expected;
  for (std::size_t i = 0; i < many.size(); i += 7) {
    many[i] = 7;
    if (i > 0) expected.push_back(static_cast<std::int64_t>(i));
  }
  expected.push_back(10'000);
  const std::string large = folder.write("c.bin", llmc_file(20240520, 1, many));
  CHECK(ends_in(*open_token_source(large, {.end_of_document = 7}), 0, 10'000) == expected);
}

TEST_CASE("a token file tells its format, version and width, and whether it knows documents") {
  const ScratchFolder folder;
  const auto stored = [](const std::string& file, const ForeignFormat& foreign = {}) {
    const TokenStorage storage = open_token_source(file, foreign)->storage();
    return std::string(storage.kind) + ' ' + std::to_string(storage.version) + ' ' +
           std::to_string(storage.id_bytes) + (storage.tells_documents ? " documents" : "");
  };
  const std::string llmc = folder.write("a.bin", llmc_file(20240520, 1, kIds));
  CHECK(stored(llmc) == "llm.c 1 2");
  CHECK(stored(llmc, {.end_of_document = 9}) == "llm.c 1 2 documents");
  CHECK(stored(folder.write("b.bin", llmc_file(20240801, 7, Ids{1, 2}))) == "llm.c 7 4");
  folder.write("c.bin", bytes_of(kIds));
  CHECK(stored(folder.write("c.idx", index_file(kIndex))) == "Megatron 1 2 documents");
  const std::string bare = folder.write("d.bin", bytes_of(Ids{1, 2}));
  CHECK(stored(bare, {.type = TokenType::kU32}) == "bare ids 0 4");
  CHECK(stored(bare, {.type = TokenType::kU32, .end_of_document = 1}) == "bare ids 0 4 documents");
  for (const bool has_loss : {false, true}) {
    const std::string own = folder.file("e.bin");
    TokenFileWriter writer(own, {.type = TokenType::kU32, .vocabulary = 70'000});
    if (has_loss) writer.append(Ids{1, 2}, std::vector<std::uint8_t>{0, 1});
    writer.append(Ids{3});
    writer.close();
    writer.publish();
    CHECK(stored(own) == (has_loss ? "strata 2 4 documents" : "strata 1 4 documents"));
  }
}

TEST_CASE("torn and unknown token files of llm.c are refused") {
  const ScratchFolder folder;
  const auto refused = [&](const std::string& content, const char* why) {
    const std::string file = folder.write("bad.bin", content);
    REQUIRE_THROWS_WITH(open_token_source(file),
                        ContainsSubstring("bad.bin") && ContainsSubstring(why));
  };
  const std::string good = llmc_file(20240520, 1, kIds);
  refused(good.substr(0, 4), "1024 bytes, it has 4");
  refused(good.substr(0, 1023), "torn");
  refused(good.substr(0, good.size() - 1), "1044 bytes, it has 1043");
  refused(good + "x", "torn");
  refused(llmc_file(20240520, 2, kIds), "version 2");
  refused(llmc_file(20240801, 1, kIds), "version 1");
  std::string negative = good;
  negative[11] = '\x80';
  refused(negative, "tokens");
}

TEST_CASE("a Megatron dataset gives back its ids and documents") {
  const ScratchFolder folder;
  folder.write("a.bin", bytes_of(kIds));
  const auto tokens = open_token_source(folder.write("a.idx", index_file(kIndex)));
  CHECK(all_of(*tokens) == Ids(kIds.begin(), kIds.end()));
  CHECK(tokens->vocabulary() == 0);
  CHECK(ends_in(*tokens, 0, 10) == Ends{2, 6, 10});
  CHECK(ends_in(*tokens, 2, 6) == Ends{6});
  CHECK(ends_in(*tokens, 6, 9).empty());
  CHECK(ends_in(*tokens, 9, 10) == Ends{10});
  Index wide{.code = 4, .lengths = {3}, .documents = {0, 1}, .bytes_of_id = 4};
  folder.write("b.bin", bytes_of(Ids{7, 128255, 0}));
  CHECK(all_of(*open_token_source(folder.write("b.idx", index_file(wide)))) == Ids{7, 128255, 0});
  CHECK(files_of_token_source(folder.file("a.idx")) ==
        std::vector{folder.file("a.idx"), folder.file("a.bin")});
  CHECK(files_of_token_source("a.bin") == std::vector<std::string>{"a.bin"});
}

TEST_CASE("documents of a long Megatron dataset end where its index says") {
  const ScratchFolder folder;
  std::mt19937 random(5);
  Index index{.documents = {0}};
  Ends expected;
  std::int64_t size = 0;
  for (int document = 0; document < 3000; ++document) {
    for (auto sequence = random() % 4; sequence > 0; --sequence) {
      index.lengths.push_back(static_cast<std::int32_t>(random() % 9));
      size += index.lengths.back();
    }
    index.documents.push_back(std::ssize(index.lengths));
    if (size > (expected.empty() ? 0 : expected.back())) expected.push_back(size);
  }
  folder.write("a.bin", std::string(static_cast<std::size_t>(2 * size), '\1'));
  const auto tokens = open_token_source(folder.write("a.idx", index_file(index)));
  CHECK(ends_in(*tokens, 0, size) == expected);
  for (std::int64_t begin = 0; begin < size; begin += 211) {
    const std::int64_t end = std::min(size, begin + 150);
    Ends inside;
    std::ranges::copy_if(expected, std::back_inserter(inside),
                         [&](std::int64_t at) { return at > begin && at <= end; });
    REQUIRE(ends_in(*tokens, begin, end) == inside);
  }
}

TEST_CASE("Megatron datasets that are torn, unknown or contradict themselves are refused") {
  const ScratchFolder folder;
  folder.write("bad.bin", bytes_of(kIds));
  const auto refused = [&](const std::string& content, const char* why) {
    const std::string file = folder.write("bad.idx", content);
    REQUIRE_THROWS_WITH(open_token_source(file),
                        ContainsSubstring("bad.idx") && ContainsSubstring(why));
  };
  const auto changed = [](const auto& change) {
    Index index = kIndex;
    change(index);
    return index_file(index);
  };
  const std::string good = index_file(kIndex);
  for (std::size_t size = 9; size < good.size(); ++size) refused(good.substr(0, size), "torn");
  refused(good + "x", "torn");
  refused(changed([](Index& i) { i.version = 2; }), "version 2");
  refused(changed([](Index& i) { i.code = 5; }), "code 5");
  refused(changed([](Index& i) { i.lengths[1] = -3; }), "sequence 1");
  refused(changed([](Index& i) { i.lengths[4] = 5; }), "22 bytes of ids");
  refused(changed([](Index& i) { i.bytes_of_id = 4; }), "sequence 1");
  refused(changed([](Index& i) { i.documents[0] = 1; }), "document 0");
  refused(changed([](Index& i) { i.documents[2] = 0; }), "document 2");
  refused(changed([](Index& i) { i.documents[4] = 6; }), "document 4");
  refused(changed([](Index& i) { i.documents[4] = 4; }), "last document");
  refused(changed([](Index& i) { i.documents.clear(); }), "last document");
  std::string huge = good;
  huge[25] = '\x70';
  refused(huge, "torn");
}

TEST_CASE("a Megatron index without its ids, or of another name, is refused") {
  const ScratchFolder folder;
  const std::string alone = folder.write("alone.idx", index_file(kIndex));
  REQUIRE_THROWS_WITH(open_token_source(alone), ContainsSubstring("alone.bin"));
  const std::string other = folder.write("index", index_file(kIndex));
  REQUIRE_THROWS_WITH(open_token_source(other), ContainsSubstring("must end with .idx"));
}

}  // namespace strata
