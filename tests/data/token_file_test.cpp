// Tests that token files give back what was written, that their bytes are those that the header
// file describes, and that torn, foreign and hostile files are refused with a reason.

#include "strata/data/token_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "support/catch.h"
#include "support/scratch_folder.h"

namespace strata {

namespace {

using Ids = std::vector<std::int32_t>;
using Ends = std::vector<std::int64_t>;
using Loss = std::vector<std::uint8_t>;

Ids read(const TokenSource& source, std::int64_t begin, std::size_t count) {
  Ids ids(count);
  source.read(begin, ids);
  return ids;
}

Ends document_ends(const TokenSource& source, std::int64_t begin, std::int64_t end) {
  Ends ends;
  source.document_ends_in(begin, end, ends);
  return ends;
}

Loss loss_of(const TokenSource& source, std::int64_t begin, std::size_t count) {
  Loss loss(count, 9);
  source.read_loss(begin, loss);
  return loss;
}

void write_documents(const std::string& file, const TokenFileWriter::Format& format,
                     const std::vector<Ids>& documents) {
  TokenFileWriter writer(file, format);
  for (const Ids& document : documents) {
    writer.append(document);
    writer.end_document();
  }
  writer.close();
  writer.publish();
}

std::string content_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

constexpr TokenFileWriter::Format kSmall{
    .type = TokenType::kU16, .vocabulary = 257, .tokenizer_hash = 0x1122334455667788};

}  // namespace

TEST_CASE("a token file gives back ids, documents, vocabulary and tokenizer") {
  const ScratchFolder folder;
  const std::string file = folder.file("a.bin");
  write_documents(file, kSmall, {{1, 2, 256}, {3, 256}, {4, 5, 6, 7, 256}});
  const auto tokens = TokenFile::open(file);
  CHECK(tokens->name() == file);
  CHECK(tokens->size() == 10);
  CHECK(tokens->vocabulary() == 257);
  CHECK(tokens->tokenizer_hash() == 0x1122334455667788);
  CHECK(tokens->documents() == 3);
  CHECK(tokens->type() == TokenType::kU16);
  CHECK(read(*tokens, 0, 10) == Ids{1, 2, 256, 3, 256, 4, 5, 6, 7, 256});
  CHECK(read(*tokens, 4, 3) == Ids{256, 4, 5});
  CHECK(read(*tokens, 10, 0).empty());
}

TEST_CASE("document ends are those behind the begin and up to the end of a range") {
  const ScratchFolder folder;
  write_documents(folder.file("a.bin"), kSmall, {{1, 2, 256}, {3, 256}, {4, 5, 6, 7, 256}});
  const auto tokens = TokenFile::open(folder.file("a.bin"));
  CHECK(document_ends(*tokens, 0, 10) == Ends{3, 5, 10});
  CHECK(document_ends(*tokens, 3, 5) == Ends{5});
  CHECK(document_ends(*tokens, 2, 4) == Ends{3});
  CHECK(document_ends(*tokens, 5, 9).empty());
  CHECK(document_ends(*tokens, 3, 3).empty());
}

TEST_CASE("the bytes of a token file are those that the header file describes") {
  const ScratchFolder folder;
  write_documents(folder.file("a.bin"), kSmall, {{1, 2}, {258 - 2}});
  std::string expected = "STRTOK\r\n";
  expected += bytes_of(std::vector<std::uint32_t>{1, 2});
  expected += bytes_of(std::vector<std::uint64_t>{3, 2, 257, 0x1122334455667788, 0, 0});
  expected += bytes_of(std::vector<std::uint16_t>{1, 2, 256, 0});
  expected += bytes_of(std::vector<std::uint64_t>{2, 3});
  CHECK(content_of(folder.file("a.bin")) == expected);
}

TEST_CASE("a file without loss bits counts the loss of every token") {
  const ScratchFolder folder;
  write_documents(folder.file("a.bin"), kSmall, {{1, 2, 256}});
  const auto tokens = TokenFile::open(folder.file("a.bin"));
  CHECK_FALSE(tokens->has_loss());
  CHECK(loss_of(*tokens, 1, 2) == Loss{1, 1});
  REQUIRE_THROWS_AS(loss_of(*tokens, 2, 2), IoError);
}

TEST_CASE("the bytes of a file with loss bits are those that the header file describes") {
  const ScratchFolder folder;
  TokenFileWriter writer(folder.file("a.bin"), kSmall);
  writer.append(Ids{1, 2, 3});
  writer.append(Ids{4, 5, 6}, Loss{0, 0, 1});
  writer.end_document();
  writer.append(Ids{7, 8, 9, 10}, Loss{0, 1, 0, 1});
  writer.close();
  writer.publish();
  std::string expected = "STRTOK\r\n";
  expected += bytes_of(std::vector<std::uint32_t>{2, 2});
  expected += bytes_of(std::vector<std::uint64_t>{10, 2, 257, 0x1122334455667788, 1, 0});
  expected += bytes_of(std::vector<std::uint16_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0});
  expected += bytes_of(std::vector<std::uint64_t>{0b10'1010'0111});
  expected += bytes_of(std::vector<std::uint64_t>{6, 10});
  CHECK(content_of(folder.file("a.bin")) == expected);
  const auto tokens = TokenFile::open(folder.file("a.bin"));
  CHECK(tokens->has_loss());
  CHECK(loss_of(*tokens, 0, 10) == Loss{1, 1, 1, 0, 0, 1, 0, 1, 0, 1});
  CHECK(document_ends(*tokens, 0, 10) == Ends{6, 10});
}

TEST_CASE("a file of pairs has version 3 and both flags, and says that it holds pairs") {
  const ScratchFolder folder;
  TokenFileWriter writer(folder.file("a.bin"), kSmall);
  writer.mark_pairs();
  writer.append(Ids{1, 2, 3}, Loss{0, 0, 1});
  writer.end_document();
  writer.append(Ids{1, 2}, Loss{0, 1});
  writer.close();
  writer.publish();
  const std::string bytes = content_of(folder.file("a.bin"));
  CHECK(bytes.substr(8, 8) == bytes_of(std::vector<std::uint32_t>{3, 2}));
  CHECK(bytes.substr(48, 8) == bytes_of(std::vector<std::uint64_t>{3}));
  const auto tokens = TokenFile::open(folder.file("a.bin"));
  CHECK(tokens->has_pairs());
  CHECK(loss_of(*tokens, 0, 5) == Loss{0, 0, 1, 0, 1});
  CHECK(document_ends(*tokens, 0, 5) == Ends{3, 5});
}

TEST_CASE("a file of pairs in which an answer has no other is refused") {
  const ScratchFolder folder;
  TokenFileWriter writer(folder.file("a.bin"), kSmall);
  writer.mark_pairs();
  writer.append(Ids{1, 2, 3}, Loss{0, 0, 1});
  writer.close();
  writer.publish();
  REQUIRE_THROWS_WITH(TokenFile::open(folder.file("a.bin")), ContainsSubstring("a.bin") &&
                                                                 ContainsSubstring("pairs") &&
                                                                 ContainsSubstring("1 documents"));
}

TEST_CASE("loss bits come back from any place of a long file") {
  const ScratchFolder folder;
  constexpr std::size_t kTokens = 100'003;
  std::mt19937 random(3);
  Loss loss(kTokens);
  for (std::size_t i = 0; i < kTokens; ++i) {
    loss[i] = static_cast<std::uint8_t>(i < 40'000 ? random() % 2 : i / 5000 % 2);
  }
  TokenFileWriter writer(folder.file("a.bin"), kSmall);
  for (std::size_t begin = 0; begin < kTokens; begin += 7919) {
    const std::size_t count = std::min<std::size_t>(7919, kTokens - begin);
    writer.append(Ids(count, 1), std::span(loss).subspan(begin, count));
  }
  writer.close();
  writer.publish();
  const auto tokens = TokenFile::open(folder.file("a.bin"));
  CHECK(loss_of(*tokens, 0, kTokens) == loss);
  for (int i = 0; i < 200; ++i) {
    const std::size_t begin = random() % kTokens;
    const std::size_t count = random() % (kTokens - begin);
    const auto first = loss.begin() + static_cast<std::ptrdiff_t>(begin);
    const Loss expected(first, first + static_cast<std::ptrdiff_t>(count));
    CHECK(loss_of(*tokens, static_cast<std::int64_t>(begin), count) == expected);
  }
}

TEST_CASE("a damaged file with loss bits is refused") {
  const ScratchFolder folder;
  TokenFileWriter writer(folder.file("a.bin"), kSmall);
  writer.append(Ids{1, 2, 3}, Loss{1, 0, 1});
  REQUIRE_THROWS_AS(writer.append(Ids{1, 2}, Loss{1}), ShapeError);
  writer.close();
  writer.publish();
  const std::string good = content_of(folder.file("a.bin"));
  REQUIRE(good.size() == 64 + 8 + 8 + 8);
  const auto refused = [&](std::size_t offset, char value, const char* why) {
    std::string bytes = good;
    bytes[offset] = value;
    const std::string file = folder.write("damaged.bin", bytes);
    REQUIRE_THROWS_WITH(TokenFile::open(file),
                        ContainsSubstring("damaged.bin") && ContainsSubstring(why));
  };
  refused(8, 1, "flags 1, which version 1");
  refused(8, 3, "flags 1, which version 3");
  refused(8, 4, "versions 1 to 3");
  refused(48, 3, "flags 3");
  refused(48, 0, "torn");
  refused(56, 1, "not 0");
  refused(72, 0b1101, "loss bit 3 ");
  refused(79, 1, "loss bit 56 ");
  for (std::size_t size = 64; size < good.size(); ++size) {
    const std::string torn = folder.write("torn.bin", good.substr(0, size));
    REQUIRE_THROWS_WITH(TokenFile::open(torn), ContainsSubstring("torn"));
  }
}

TEST_CASE("ids of a vocabulary above 65536 keep all their bits") {
  const ScratchFolder folder;
  CHECK(token_type_for(65536) == TokenType::kU16);
  REQUIRE(token_type_for(128256) == TokenType::kU32);
  write_documents(folder.file("a.bin"), {.type = TokenType::kU32, .vocabulary = 128256},
                  {{128000, 5, 65536, 128255}});
  const auto tokens = TokenFile::open(folder.file("a.bin"));
  CHECK(read(*tokens, 0, 4) == Ids{128000, 5, 65536, 128255});
  REQUIRE_THROWS_AS(
      TokenFileWriter(folder.file("b.bin"), {.type = TokenType::kU16, .vocabulary = 128256}),
      ConfigError);
}

TEST_CASE("a document may be appended in pieces, and empty ones are not counted") {
  const ScratchFolder folder;
  TokenFileWriter writer(folder.file("a.bin"), kSmall);
  writer.append(Ids{1, 2});
  writer.append(Ids{3});
  writer.end_document();
  writer.end_document();
  writer.append(Ids{});
  writer.append(Ids(10'000, 9));
  writer.close();  // ends the open document
  writer.publish();
  CHECK(writer.tokens() == 10'003);
  CHECK(writer.documents() == 2);
  const auto tokens = TokenFile::open(folder.file("a.bin"));
  CHECK(document_ends(*tokens, 0, 10'003) == Ends{3, 10'003});
  CHECK(read(*tokens, 10'001, 2) == Ids{9, 9});
}

TEST_CASE("a writer that does not finish leaves the old file and nothing else") {
  const ScratchFolder folder;
  const std::string file = folder.write("a.bin", "old");
  {
    TokenFileWriter writer(file, kSmall);
    writer.append(Ids{1, 2, 3});
    REQUIRE_THROWS_WITH(writer.append(Ids{257}), ContainsSubstring("257"));
    REQUIRE_THROWS_AS(writer.append(Ids{-1}), IoError);
  }
  CHECK(content_of(file) == "old");
  CHECK(folder.entries() == 1);
}

TEST_CASE("a token file cannot be written into a folder that is not there") {
  const ScratchFolder folder;
  REQUIRE_THROWS_AS(TokenFileWriter(folder.file("none/a.bin"), kSmall), IoError);
}

TEST_CASE("a torn token file is refused with the bytes expected and found") {
  const ScratchFolder folder;
  write_documents(folder.file("a.bin"), kSmall, {{1, 2, 3}, {4, 5}});
  const std::string whole = content_of(folder.file("a.bin"));
  REQUIRE(whole.size() == 64 + 16 + 16);
  for (std::size_t size = 8; size < whole.size(); ++size) {
    const std::string torn = folder.write("torn.bin", whole.substr(0, size));
    REQUIRE_THROWS_WITH(TokenFile::open(torn), ContainsSubstring("torn.bin") &&
                                                   ContainsSubstring(std::to_string(size)) &&
                                                   ContainsSubstring(size < 64 ? "64" : "96"));
  }
  const std::string longer = folder.write("longer.bin", whole + "x");
  REQUIRE_THROWS_AS(TokenFile::open(longer), IoError);
}

TEST_CASE("a header whose counts overflow or contradict the ends is refused") {
  const ScratchFolder folder;
  write_documents(folder.file("a.bin"), kSmall, {{1, 2, 3, 4}});
  const std::string good = content_of(folder.file("a.bin"));
  const auto with = [&](std::size_t offset, std::uint64_t value) {
    std::string changed = good;
    changed.replace(offset, 8, bytes_of(std::vector<std::uint64_t>{value}));
    return folder.write("changed.bin", changed);
  };
  REQUIRE_THROWS_AS(TokenFile::open(with(16, std::uint64_t{1} << 63)), IoError);
  REQUIRE_THROWS_AS(TokenFile::open(with(24, std::uint64_t{1} << 61)), IoError);
  REQUIRE_THROWS_AS(TokenFile::open(with(good.size() - 8, 3)), IoError);
  // Version and bytes per token share eight bytes.
  REQUIRE_THROWS_WITH(TokenFile::open(with(8, (std::uint64_t{2} << 32) | 99)),
                      ContainsSubstring("version 99"));
  REQUIRE_THROWS_AS(TokenFile::open(with(8, (std::uint64_t{3} << 32) | 1)), IoError);
  CHECK_NOTHROW(TokenFile::open(with(32, 257)));
}

TEST_CASE("a header whose products overflow in a file with holes is refused") {
  // On a file system in memory, files may be of any length that 63 bits can say.
  const std::string file = "/dev/shm/strata_token_file_test_" + std::to_string(getpid());
  constexpr std::uint64_t kBytes = (std::uint64_t{1} << 62) + 64;
  const std::vector<std::uint64_t> header{0x0a0d4b4f54525453,
                                          (std::uint64_t{4} << 32) | 1,
                                          std::uint64_t{1} << 62,  // times 4 it is 0
                                          (kBytes - 64) / 8,
                                          257,
                                          0,
                                          0,
                                          0};
  std::ofstream(file, std::ios::binary) << bytes_of(header);
  const bool is_long = truncate(file.c_str(), static_cast<off_t>(kBytes)) == 0;
  if (is_long) {
    CHECK_THROWS_WITH(TokenFile::open(file), ContainsSubstring("is torn: its header tells of"));
  } else {
    WARN("skipped: no file of /dev/shm may be of 2^62 bytes");
  }
  std::filesystem::remove(file);
}

TEST_CASE("a file whose document ends do not ascend to its last token is refused") {
  const ScratchFolder folder;
  write_documents(folder.file("a.bin"), kSmall, {{1, 2}, {3, 4}, {5, 6}, {7, 8}});
  const std::string good = content_of(folder.file("a.bin"));
  const std::size_t place_of_ends = good.size() - 4 * 8;
  int refused = 0;
  for (std::size_t place = 0; place < 4; ++place) {
    for (const std::uint64_t wrong : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1 << 20}) {
      std::vector<std::uint64_t> ends{2, 4, 6, 8};
      ends[place] = wrong;
      std::string bytes = good;
      bytes.replace(place_of_ends, 32, bytes_of(ends));
      const std::string file = folder.write("damaged.bin", bytes);
      const bool ascend =
          ends[0] > 0 && ends[1] > ends[0] && ends[2] > ends[1] && ends[3] > ends[2];
      INFO("end " << place << " is " << wrong);
      if (ascend && ends[3] == 8) {
        CHECK(document_ends(*TokenFile::open(file), 0, 8) == Ends(ends.begin(), ends.end()));
      } else {
        ++refused;
        REQUIRE_THROWS_WITH(TokenFile::open(file), ContainsSubstring("damaged.bin: is damaged") &&
                                                       ContainsSubstring("tokenize it again"));
      }
    }
  }
  CHECK(refused > 30);
}

TEST_CASE("documents of many blocks end where they were written to end") {
  const ScratchFolder folder;
  Ends expected;
  {
    TokenFileWriter writer(folder.file("a.bin"), kSmall);
    for (int document = 0; document < 2000; ++document) {
      writer.append(Ids(static_cast<std::size_t>(1 + document % 7), document % 257));
      writer.end_document();
      expected.push_back(writer.tokens());
    }
    writer.close();
    writer.publish();
  }
  const auto tokens = TokenFile::open(folder.file("a.bin"));
  CHECK(document_ends(*tokens, 0, tokens->size()) == expected);
  for (std::int64_t begin = 0; begin < tokens->size(); begin += 61) {
    const std::int64_t end = std::min(begin + 97, tokens->size());
    Ends inside;
    std::ranges::copy_if(expected, std::back_inserter(inside),
                         [&](std::int64_t at) { return at > begin && at <= end; });
    REQUIRE(document_ends(*tokens, begin, end) == inside);
  }
}

TEST_CASE("a flipped bit of a header is refused, but for hash and vocabulary") {
  const ScratchFolder folder;
  write_documents(folder.file("a.bin"), kSmall, {{1, 2, 3}, {4, 5}});
  const std::string good = content_of(folder.file("a.bin"));
  constexpr std::size_t kVocabulary = 32;
  constexpr std::size_t kHash = 40;
  for (std::size_t bit = 0; bit < 64 * 8; ++bit) {
    const std::size_t byte = bit / 8;
    if (byte >= kHash && byte < kHash + 8) continue;  // any hash may be right
    std::string bytes = good;
    bytes[byte] = static_cast<char>(bytes[byte] ^ (1 << bit % 8));
    const std::string file = folder.write("flipped.bin", bytes);
    INFO("bit " << bit);
    if (byte == kVocabulary || byte == kVocabulary + 1) {
      const std::int64_t vocabulary = 257 ^ (1 << (bit - kVocabulary * 8));
      CHECK(TokenFile::open(file, RawTokenFormat{})->vocabulary() == vocabulary);
    } else {
      REQUIRE_THROWS_AS(TokenFile::open(file, RawTokenFormat{}), IoError);
    }
  }
}

TEST_CASE("a token file that is cut short while it is open gives an error that names it") {
  const ScratchFolder folder;
  const bool with_header = GENERATE(true, false);
  const std::string file = folder.file("cut.bin");
  if (with_header) {
    TokenFileWriter writer(file, kSmall);
    for (int document = 0; document < 1000; ++document) {
      writer.append(Ids(100, 7));
      writer.end_document();
    }
    writer.close();
    writer.publish();
  } else {
    folder.write("cut.bin", bytes_of(std::vector<std::uint16_t>(100'000, 7)));
  }
  const auto tokens = TokenFile::open(file, RawTokenFormat{.end_of_document = 9});
  std::filesystem::resize_file(file, 8192);
  CHECK(read(*tokens, 100, 3) == Ids{7, 7, 7});
  Ids far(100);
  REQUIRE_THROWS_WITH(tokens->read(90'000, far), ContainsSubstring("cut.bin"));
  Ends ends;
  REQUIRE_THROWS_WITH(tokens->document_ends_in(90'000, 90'500, ends), ContainsSubstring("cut.bin"));
}

TEST_CASE("what is no regular file is refused without waiting") {
  const ScratchFolder folder;
  REQUIRE(::mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  std::filesystem::create_symlink(folder.file("b"), folder.file("a"));
  std::filesystem::create_symlink(folder.file("a"), folder.file("b"));
  for (const std::string& name :
       {folder.file("pipe"), std::string("/dev/zero"), folder.file("a"), folder.file(""),
        folder.file(std::string(300, 'n')), folder.file(std::string(5000, 'n'))}) {
    for (const auto& raw : {std::optional<RawTokenFormat>(), std::optional(RawTokenFormat{})}) {
      REQUIRE_THROWS_AS(TokenFile::open(name, raw), IoError);
    }
  }
}

TEST_CASE("the formats of other programs are recognized, whatever data.dtype says") {
  using namespace std::string_literals;
  const ScratchFolder folder;
  const auto i32 = [](std::vector<std::uint32_t> values) {
    values.resize(256);
    return bytes_of(values) + bytes_of(std::vector<std::uint16_t>(2048, 11));
  };
  const std::string zeros(200, '\0');
  const std::vector<std::pair<std::string, std::string>> cases{
      {i32({20240520, 1, 2048}), "llm.c"},
      {i32({20240801, 7, 1024}), "llm.c"},
      {"MMIDIDX\0\0\1\0\0\0\0\0\0\0\10"s + zeros, "Megatron"},
      {"STRREF\r\n\1"s + zeros, "end the pattern in .bin"},
      {"\x93NUMPY\1\0"s + zeros, "tofile"},
      {"GGUF\3\0\0\0"s + zeros, "weights"},
      {"\x48\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\""s + zeros, "weights"},
      {"PAR1\x15\4"s + zeros, "Parquet"},
      {"ARROW1\0\0"s + zeros, "Arrow"},
      {"\xff\xff\xff\xff\x20\1\0\0"s + zeros, "Arrow"},
      {"\x1f\x8b\x08\0"s + zeros, "gunzip"},
      {"\x28\xb5\x2f\xfd"s + zeros, "unzstd"},
      {"PK\3\4"s + zeros, "zip"},
      {"STRTOK\n"s + zeros, "damaged"},
      {"It is text, and it is long enough for nobody to take it for the ids of tokens."s,
       "strata tokenize"},
  };
  for (const auto& [content, hint] : cases) {
    const std::string file = folder.write("foreign.bin", content + (content.size() % 2 ? " " : ""));
    INFO(hint);
    for (const TokenType type : {TokenType::kU16, TokenType::kU32}) {
      REQUIRE_THROWS_WITH(TokenFile::open(file, RawTokenFormat{.type = type}),
                          ContainsSubstring("foreign.bin") && ContainsSubstring(hint));
    }
    REQUIRE_THROWS_WITH(TokenFile::open(file), ContainsSubstring(hint));
  }
}

TEST_CASE("ids read in another width than they have are refused with the right one") {
  const ScratchFolder folder;
  std::mt19937_64 random(7);
  // Half of the ids are small, as in text. The largest vocabulary needs 18 bits.
  for (const std::uint32_t vocabulary : {257u, 4096u, 50257u, 128256u, 262144u}) {
    for (const std::size_t count : {200u, 50'000u}) {
      std::vector<std::uint32_t> ids(count);
      for (std::uint32_t& id : ids) {
        id = static_cast<std::uint32_t>(random() % (random() % 2 == 0 ? 200 : vocabulary));
      }
      const std::vector<std::uint64_t> wide(ids.begin(), ids.end());
      const std::string u32 = folder.write("u32", bytes_of(ids));
      const std::string u64 = folder.write("u64", bytes_of(wide));
      INFO(vocabulary << " ids, " << count << " tokens");
      const RawTokenFormat as_u16{.type = TokenType::kU16};
      const RawTokenFormat as_u32{.type = TokenType::kU32};
      CHECK_NOTHROW(TokenFile::open(u32, as_u32));
      REQUIRE_THROWS_WITH(TokenFile::open(u32, as_u16), ContainsSubstring("data.dtype to \"u32\""));
      REQUIRE_THROWS_AS(TokenFile::open(u64, as_u16), IoError);
      REQUIRE_THROWS_WITH(TokenFile::open(u64, as_u32), ContainsSubstring("8 bytes"));
      if (vocabulary > 65536) continue;
      const std::vector<std::uint16_t> narrow_ids(ids.begin(), ids.end());
      const std::string u16 = folder.write("u16", bytes_of(narrow_ids));
      CHECK_NOTHROW(TokenFile::open(u16, as_u16));
      // Ids below 257 make pairs below 2^24 mostly: the loader refuses those as above the
      // vocabulary.
      if (vocabulary < 4096) continue;
      REQUIRE_THROWS_WITH(TokenFile::open(u16, as_u32), ContainsSubstring("data.dtype to \"u16\""));
    }
  }
}

TEST_CASE("few, equal or zero ids are not taken for another width") {
  const ScratchFolder folder;
  std::mt19937_64 random(8);
  std::vector<std::uint16_t> bases(10'000);  // as of a genome
  for (std::uint16_t& id : bases) id = static_cast<std::uint16_t>(random() % 4);
  for (const std::vector<std::uint16_t>& ids :
       {bases, std::vector<std::uint16_t>(10'000, 0), std::vector<std::uint16_t>(10'000, 300),
        std::vector<std::uint16_t>{500, 0, 600, 0}}) {
    CHECK_NOTHROW(TokenFile::open(folder.write("u16", bytes_of(ids)), RawTokenFormat{}));
  }
}

TEST_CASE("headerless files of u16 and u32 ids are read") {
  const ScratchFolder folder;
  const std::string u16 = folder.write("u16", bytes_of(std::vector<std::uint16_t>{7, 65535, 0, 2}));
  const std::string u32 =
      folder.write("u32", bytes_of(std::vector<std::uint32_t>{7, 128255, 2, 2}));
  const auto narrow_ids = TokenFile::open(u16, RawTokenFormat{.type = TokenType::kU16});
  CHECK(read(*narrow_ids, 0, 4) == Ids{7, 65535, 0, 2});
  CHECK(narrow_ids->vocabulary() == 0);
  CHECK_FALSE(narrow_ids->documents().has_value());
  CHECK(document_ends(*narrow_ids, 0, 4).empty());
  const auto wide_ids =
      TokenFile::open(u32, RawTokenFormat{.type = TokenType::kU32, .end_of_document = 2});
  CHECK(read(*wide_ids, 1, 3) == Ids{128255, 2, 2});
  CHECK(document_ends(*wide_ids, 0, 4) == Ends{3, 4});
  CHECK(document_ends(*wide_ids, 0, 2).empty());
}

TEST_CASE("a headerless file needs its type, and whole tokens") {
  const ScratchFolder folder;
  const std::string file = folder.write("odd", "abcdef");
  REQUIRE_THROWS_WITH(TokenFile::open(file), ContainsSubstring("data.dtype"));
  REQUIRE_THROWS_WITH(TokenFile::open(file, RawTokenFormat{.type = TokenType::kU32}),
                      ContainsSubstring("6 bytes"));
  CHECK(parse_token_type("u32") == TokenType::kU32);
  REQUIRE_THROWS_WITH(parse_token_type("int16"), ContainsSubstring("int16"));
}

TEST_CASE("a file that is missing, empty or a folder is named") {
  const ScratchFolder folder;
  REQUIRE_THROWS_WITH(TokenFile::open(folder.file("none.bin")), ContainsSubstring("none.bin"));
  REQUIRE_THROWS_AS(TokenFile::open(folder.file(".")), IoError);
  REQUIRE_THROWS_AS(TokenFile::open(folder.write("empty", "")), IoError);
  CHECK(TokenFile::open(folder.file("empty"), RawTokenFormat{})->size() == 0);
}

TEST_CASE("reading outside of a file is refused") {
  const ScratchFolder folder;
  write_documents(folder.file("a.bin"), kSmall, {{1, 2, 3}});
  const auto tokens = TokenFile::open(folder.file("a.bin"));
  Ids two(2);
  REQUIRE_THROWS_AS(tokens->read(2, two), IoError);
  REQUIRE_THROWS_AS(tokens->read(-1, two), IoError);
  REQUIRE_THROWS_AS(tokens->read(std::numeric_limits<std::int64_t>::max(), two), IoError);
}

TEST_CASE("a file of more than 2^31 tokens is read by 64-bit positions") {
  const ScratchFolder folder;
  // A hole: the file system stores no more than the last block.
  const std::int64_t size = (std::int64_t{1} << 32) + 3;
  const std::string file = folder.write("large", "");
  std::error_code failed;
  std::filesystem::resize_file(file, static_cast<std::uintmax_t>(size) * 2, failed);
  REQUIRE_FALSE(failed);
  {
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp((size - 2) * 2);
    stream << bytes_of(std::vector<std::uint16_t>{11, 12});
  }
  const auto tokens =
      TokenFile::open(file, RawTokenFormat{.type = TokenType::kU16, .end_of_document = 11});
  CHECK(tokens->size() == size);
  CHECK(read(*tokens, size - 3, 3) == Ids{0, 11, 12});
  CHECK(document_ends(*tokens, size - 3, size) == Ends{size - 1});
}

}  // namespace strata
