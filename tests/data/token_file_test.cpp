// Tests that token files give back what was written, that their bytes are those that the header
// file describes, and that torn, foreign and hostile files are refused with a reason.

#include "strata/data/token_file.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <vector>

#include "data/scratch_folder.h"
#include "strata/base/error.h"
#include "support/catch.h"

namespace strata {

namespace {

using Ids = std::vector<std::int32_t>;
using Ends = std::vector<std::int64_t>;

Ids read(const TokenSource& source, std::int64_t begin, std::size_t count) {
  Ids ids(count);
  source.read(begin, ids);
  return ids;
}

Ends ends_in(const TokenSource& source, std::int64_t begin, std::int64_t end) {
  Ends ends;
  source.document_ends_in(begin, end, ends);
  return ends;
}

void write_documents(const std::string& file, const TokenFileWriter::Format& format,
                     const std::vector<Ids>& documents) {
  TokenFileWriter writer(file, format);
  for (const Ids& document : documents) {
    writer.append(document);
    writer.end_document();
  }
  writer.finish();
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
  CHECK(ends_in(*tokens, 0, 10) == Ends{3, 5, 10});
  CHECK(ends_in(*tokens, 3, 5) == Ends{5});
  CHECK(ends_in(*tokens, 2, 4) == Ends{3});
  CHECK(ends_in(*tokens, 5, 9).empty());
  CHECK(ends_in(*tokens, 3, 3).empty());
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
  writer.finish();  // ends the open document
  CHECK(writer.tokens() == 10'003);
  CHECK(writer.documents() == 2);
  const auto tokens = TokenFile::open(folder.file("a.bin"));
  CHECK(ends_in(*tokens, 0, 10'003) == Ends{3, 10'003});
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

TEST_CASE("document ends that do not ascend are refused, or none of them is given") {
  const ScratchFolder folder;
  write_documents(folder.file("a.bin"), kSmall, {{1, 2}, {3, 4}, {5, 6}, {7, 8}});
  const std::string good = content_of(folder.file("a.bin"));
  const std::size_t ends = good.size() - 4 * 8;
  int refused = 0;
  for (std::size_t place = 0; place < 3; ++place) {  // the last end is checked on opening
    for (const std::uint64_t wrong : {0, 1, 2, 3, 5, 6, 7, 8, 9, 1 << 20}) {
      std::string bytes = good;
      bytes.replace(ends + 8 * place, 8, bytes_of(std::vector<std::uint64_t>{wrong}));
      const auto tokens = TokenFile::open(folder.write("damaged.bin", bytes));
      for (std::int64_t begin = 0; begin < 8; ++begin) {
        for (std::int64_t end = begin; end <= 8; ++end) {
          try {
            std::int64_t last = begin;
            for (const std::int64_t at : ends_in(*tokens, begin, end)) {
              REQUIRE(at > last);
              REQUIRE(at <= end);
              last = at;
            }
          } catch (const IoError& error) {
            CHECK_THAT(error.what(), ContainsSubstring("damaged.bin: is damaged") &&
                                         ContainsSubstring("tokenize it again"));
            ++refused;
          }
        }
      }
    }
  }
  CHECK(refused > 0);
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
  CHECK(ends_in(*narrow_ids, 0, 4).empty());
  const auto wide_ids =
      TokenFile::open(u32, RawTokenFormat{.type = TokenType::kU32, .end_of_document = 2});
  CHECK(read(*wide_ids, 1, 3) == Ids{128255, 2, 2});
  CHECK(ends_in(*wide_ids, 0, 4) == Ends{3, 4});
  CHECK(ends_in(*wide_ids, 0, 2).empty());
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
  CHECK(ends_in(*tokens, size - 3, size) == Ends{size - 1});
}

}  // namespace strata
