// Tests which files become which documents in which set.

#include "strata/data/tokenize.h"

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/data/byte_tokenizer.h"
#include "strata/data/token_file.h"
#include "support/catch.h"
#include "support/log_text.h"
#include "support/ordinary_user.h"
#include "support/scratch_folder.h"

namespace strata {

namespace {

/// The documents of a token file as text, with the end of each as '$'.
std::string text_of(const std::string& file) {
  const auto tokens = TokenFile::open(file);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens->size()));
  tokens->read(0, ids);
  std::string text;
  for (const std::int32_t id : ids) text.push_back(id == 256 ? '$' : static_cast<char>(id));
  return text;
}

}  // namespace

TEST_CASE("files and folders become documents in a fixed order") {
  const ScratchFolder folder;
  folder.write("texts/b.txt", "second");
  folder.write("texts/a/z.md", "first");
  folder.write("texts/c.bin", "not text");
  folder.write("texts/d.txt", "");
  const std::string single = folder.write("named.anything", "zero");
  const TokenizeStatistics statistics =
      tokenize({.inputs = {single, folder.file("texts")}, .output = folder.file("out.bin")});
  CHECK(text_of(folder.file("out.bin")) == "zero$first$second$");
  CHECK(statistics.documents == 3);
  CHECK(statistics.tokens == 18);
  CHECK(statistics.empty_documents == 1);
  CHECK(statistics.skipped_files == 0);
  const auto tokens = TokenFile::open(folder.file("out.bin"));
  CHECK(tokens->documents() == 3);
  CHECK(tokens->vocabulary() == 257);
  CHECK(tokens->tokenizer_hash() == ByteTokenizer::hash());
}

TEST_CASE("no extensions means every file of a folder") {
  const ScratchFolder folder;
  folder.write("texts/README", "x");
  folder.write("texts/a.conf", "y");
  (void)tokenize(
      {.inputs = {folder.file("texts")}, .output = folder.file("out.bin"), .extensions = {}});
  CHECK(text_of(folder.file("out.bin")) == "x$y$");
}

TEST_CASE("files that are not UTF-8 are skipped and counted") {
  const ScratchFolder folder;
  folder.write("texts/good.txt", "gr\xc3\xbc\xc3\x9f\x65");
  folder.write("texts/latin1.txt", "gr\xfc\xdf\x65");
  const TokenizeStatistics statistics =
      tokenize({.inputs = {folder.file("texts")}, .output = folder.file("out.bin")});
  CHECK(statistics.documents == 1);
  CHECK(statistics.skipped_files == 1);
  CHECK(text_of(folder.file("out.bin")) == "gr\xc3\xbc\xc3\x9f\x65$");
}

TEST_CASE("a folder that cannot be entered is named itself") {
  const ScratchFolder folder;
  folder.write("texts/open/a.txt", "some words");
  folder.write("texts/closed/b.txt", "other words");
  std::filesystem::permissions(folder.file("texts/closed"), std::filesystem::perms::none);
  {
    const test::OrdinaryUser user;
    CHECK_THROWS_WITH(
        tokenize({.inputs = {folder.file("texts")}, .output = folder.file("out.bin")}),
        ContainsSubstring(folder.file("texts/closed") + ": cannot be read: Permission denied"));
  }
  std::filesystem::permissions(folder.file("texts/closed"), std::filesystem::perms::all);
}

TEST_CASE("a share of the documents goes to the validation set, each to one side only") {
  const ScratchFolder folder;
  std::multiset<std::string> all;
  for (int i = 0; i < 400; ++i) {
    const std::string text = "document number " + std::to_string(i);
    folder.write("texts/" + std::to_string(i) + ".txt", text);
    all.insert(text);
  }
  const TokenizeOptions options{.inputs = {folder.file("texts")},
                                .output = folder.file("train.bin"),
                                .validation_output = folder.file("val.bin"),
                                .validation_fraction = 0.25};
  const TokenizeStatistics statistics = tokenize(options);
  CHECK(statistics.documents + statistics.validation_documents == 400);
  // Binomial(400, 1/4): five standard deviations are 43.
  CHECK(statistics.validation_documents > 100 - 43);
  CHECK(statistics.validation_documents < 100 + 43);

  std::multiset<std::string> seen;
  std::map<std::string, std::string> side;
  for (const char* file : {"train.bin", "val.bin"}) {
    std::string text = text_of(folder.file(file));
    for (std::size_t end = text.find('$'); end != std::string::npos; end = text.find('$')) {
      seen.insert(text.substr(0, end));
      side[text.substr(0, end)] = file;
      text.erase(0, end + 1);
    }
  }
  CHECK(seen == all);

  // More documents and other names do not move one to the other side.
  for (int i = 400; i < 500; ++i) {
    folder.write("texts/" + std::to_string(i) + ".txt", "document number " + std::to_string(i));
  }
  std::filesystem::rename(folder.file("texts"), folder.file("other"));
  TokenizeOptions renamed = options;
  renamed.inputs = {folder.file("other")};
  (void)tokenize(renamed);
  const std::string validation = "$" + text_of(folder.file("val.bin"));
  int moved = 0;
  for (const auto& [text, file] : side) {
    const bool in_validation = validation.find("$" + text + "$") != std::string::npos;
    if (in_validation != (file == "val.bin")) ++moved;
  }
  CHECK(moved == 0);
}

TEST_CASE("a document longer than a piece is kept whole, and progress reaches the end") {
  const ScratchFolder folder;
  for (const std::size_t size : {2'500'000, 2 << 20}) {  // the second is a whole number of pieces
    std::string text;
    while (text.size() < size) text += "line " + std::to_string(text.size()) + "\n";
    text.resize(size);
    const std::string file = folder.write("long.txt", text);
    folder.write("more/bad.txt", "\xff\xff");  // skipped
    TokenizeProgress last;
    bool backwards = false;
    TokenizeOptions options{.inputs = {file, folder.file("more")},
                            .output = folder.file("out.bin")};
    options.progress = [&](const TokenizeProgress& p) {
      backwards = backwards || p.bytes_done < last.bytes_done || p.files_done < last.files_done;
      last = p;
    };
    const TokenizeStatistics statistics = tokenize(options);
    const bool whole = text_of(folder.file("out.bin")) == text + "$";
    CHECK(whole);
    CHECK(statistics.documents == 1);
    CHECK_FALSE(backwards);
    CHECK(last.files_done == 2);
    CHECK(last.files == 2);
    CHECK(last.bytes_done == size + 2);
    CHECK(last.bytes == size + 2);
  }
}

TEST_CASE("bad input to tokenize makes no file") {
  const ScratchFolder folder;
  const std::string good = folder.write("in/good.txt", "text");
  const std::string out = folder.file("out.bin");
  REQUIRE_THROWS_WITH(tokenize({.inputs = {good, folder.file("none.txt")}, .output = out}),
                      ContainsSubstring("none.txt"));
  REQUIRE_THROWS_AS(tokenize({.inputs = {folder.write("bad.txt", "\xff")}, .output = out}),
                    IoError);
  REQUIRE_THROWS_WITH(tokenize({.inputs = {good},
                                .output = out,
                                .validation_output = folder.file("val.bin"),
                                .validation_fraction = 1e-9}),
                      ContainsSubstring("val.bin"));
  CHECK_FALSE(std::filesystem::exists(out));
  CHECK(folder.entries() == 2);  // in and bad.txt
}

TEST_CASE("options of tokenize that do not fit together are refused") {
  const ScratchFolder folder;
  const std::string good = folder.write("good.txt", "text");
  const std::string out = folder.file("out.bin");
  REQUIRE_THROWS_AS(tokenize({.output = out}), ConfigError);
  REQUIRE_THROWS_AS(tokenize({.inputs = {good}}), ConfigError);
  REQUIRE_THROWS_AS(tokenize({.inputs = {good}, .output = out, .validation_fraction = 0.5}),
                    ConfigError);
  REQUIRE_THROWS_AS(tokenize({.inputs = {good}, .output = out, .validation_output = "v"}),
                    ConfigError);
  REQUIRE_THROWS_AS(
      tokenize(
          {.inputs = {good}, .output = out, .validation_output = "v", .validation_fraction = 1.0}),
      ConfigError);
  REQUIRE_THROWS_AS(
      tokenize(
          {.inputs = {good}, .output = out, .validation_output = out, .validation_fraction = 0.5}),
      ConfigError);
}

TEST_CASE("a validation set of few documents or another share than asked for is warned of") {
  const ScratchFolder folder;
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "{\"text\": \"document " + std::to_string(i) + "\"}\n";
  const std::string many = folder.write("many.jsonl", lines);
  const auto said = [&](const std::string& input, double fraction) {
    const test::LogText log;
    (void)tokenize({.inputs = {input},
                    .output = folder.file("out.bin"),
                    .validation_output = folder.file("val.bin"),
                    .validation_fraction = fraction});
    return log.text();
  };
  CHECK(said(many, 0.1).empty());
  CHECK_THAT(said(many, 0.006),
             ContainsSubstring("val.bin: ") && ContainsSubstring(" of 0.6 % asked"));
  // One document of as many tokens as all others together, which falls to either side as a whole.
  int held_out = 0;
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    const std::string large(13'000, letter);
    const std::string log =
        said(folder.write("mixed.jsonl", lines + "{\"text\": \"" + large + "\"}\n"), 0.1);
    const bool there = TokenFile::open(folder.file("val.bin"))->size() > 13'000;
    held_out += there ? 1 : 0;
    if (there) CHECK_THAT(log, ContainsSubstring("some documents are much longer than others"));
  }
  CHECK(held_out > 0);
}

TEST_CASE("a named file that is plainly not text is refused with what to do") {
  using namespace std::string_literals;
  const ScratchFolder folder;
  const std::string good = folder.write("good.txt", "text");
  const std::vector<std::tuple<const char*, std::string, const char*>> cases{
      {"b.txt", " [ {\"text\" : \"one\"}", "cut off"},
      {"c.txt", "\xef\xbb\xbf{\"a\\\"b\": 1}", "no field text"},
      {"d.jsonl", "text\n", "JSON"},
      {"e.parquet", "text\n", "Parquet"},
      {"f.txt", "PAR1\x15\4"s, "Parquet"},
      {"g.txt", "\x1f\x8b\x08\0\0"s, "cut off"},
      {"h.txt", std::string(257, 'a') + "ustar", "tar"},
      {"i.txt", "text\0text"s, "binary"},
      {"j.txt", "\xff\xfet\0e\0"s, "UTF-16"},
      {"n.jsonl", "\xff\xfe{\0}\0"s, "UTF-16"},
      {"o.txt", "w\0o\0r\0d\0s\0"s, "UTF-16"},
      {"p.jsonl", "\0{\0\"\0t\0\"\0:"s, "UTF-16"},
      {"q.csv", "text,label\nwords,1\n", "csv.DictReader"},
      {"r.tsv", "text\tlabel\nwords\t1\n", "csv.DictReader"},
      {"s.jsonl", "{\"text\": \"a\"}\0{\"text\": \"b\"}\n"s, "NUL character"},
      {"t.jsonl", R"({"text": "a\u0000b"})", "zero byte"},
      {"k.txt", "gr\xfc\xdf", "UTF-8"},
      {"l.txt", std::string(1 << 20, 'a') + "\xff" + std::string(1 << 20, 'b'), "UTF-8"},
      {"m.txt", "STRTOK\r\n", "token file"},
  };
  for (const auto& [name, content, hint] : cases) {
    const std::string file = folder.write(name, content);
    REQUIRE_THROWS_WITH(tokenize({.inputs = {good, file}, .output = folder.file("out.bin")}),
                        ContainsSubstring(file + ":") && ContainsSubstring(hint));
    CHECK_FALSE(std::filesystem::exists(folder.file("out.bin")));
  }
  CHECK(folder.entries() == 1 + cases.size());
}

TEST_CASE("a file is not read on when it is known not to be text") {
  const ScratchFolder folder;
  for (const char* beginning : {"text", "\xff"}) {
    const std::string file = folder.write("a.txt", beginning);
    std::filesystem::resize_file(file, std::uintmax_t{1} << 40);  // zeros that nobody stores
    REQUIRE_THROWS_AS(tokenize({.inputs = {file}, .output = folder.file("out.bin")}), IoError);
  }
}

TEST_CASE("what looks like JSON or binary is text if the user says so, but not without UTF-8") {
  const ScratchFolder folder;
  const std::string json = folder.write("a.jsonl", "{\"a\": 1}");
  const std::string zeros = folder.write("b.txt", std::string("a\0b", 3));
  TokenizeOptions options{.inputs = {json, zeros}, .output = folder.file("out.bin")};
  options.format = InputFormat::kText;
  (void)tokenize(options);
  CHECK(text_of(folder.file("out.bin")) == "{\"a\": 1}$" + std::string("a\0b$", 4));
  options.inputs = {folder.write("c.txt", "\xff")};
  REQUIRE_THROWS_WITH(tokenize(options), ContainsSubstring("UTF-8"));
  // Latin letters in UTF-16 are UTF-8 with zero bytes, and never what is meant.
  options.inputs = {folder.write("d.txt", std::string("\xff\xfew\0o\0r\0", 8))};
  REQUIRE_THROWS_WITH(tokenize(options), ContainsSubstring("is text in UTF-16"));
  options.inputs = {folder.write("e.txt", std::string("w\0o\0r\0d\0", 8))};
  REQUIRE_THROWS_WITH(tokenize(options), ContainsSubstring("is text in UTF-16"));
  options.inputs = {folder.write("f.csv", "a,b\n")};
  CHECK_NOTHROW(tokenize(options));
}

TEST_CASE("a byte order mark is no part of a text, a record or a large file") {
  const ScratchFolder folder;
  const std::string mark = "\xef\xbb\xbf";
  const std::string out = folder.file("out.bin");
  (void)tokenize({.inputs = {folder.write("a.txt", mark + "text")}, .output = out});
  CHECK(text_of(out) == "text$");
  (void)tokenize(
      {.inputs = {folder.write("a.jsonl", mark + "{\"text\": \"one\"}\n{\"text\": \"two\"}\n")},
       .output = out});
  CHECK(text_of(out) == "one$two$");
  // The same bytes fall to the same side, with the mark or without.
  const std::string large(17 << 20, 'x');
  (void)tokenize({.inputs = {folder.write("b.txt", large)}, .output = folder.file("plain.bin")});
  (void)tokenize({.inputs = {folder.write("b.txt", mark + large)}, .output = out});
  const auto bytes = [](const std::string& file) {
    return read_text_file(file, std::size_t{1} << 30);
  };
  CHECK((bytes(out) == bytes(folder.file("plain.bin"))));
}

TEST_CASE("a refused table names the command that makes records of it, with its own name") {
  const ScratchFolder folder;
  const std::string file = folder.write("my data.arrow", "ARROW1");
  CHECK_THROWS_WITH(tokenize({.inputs = {file}, .output = folder.file("out.bin")}),
                    ContainsSubstring("datasets") &&
                        ContainsSubstring("'" + file + "' | strata tokenize - --format jsonl"));
  // Whether or not this build reads them, a run does not.
  const std::string table = folder.write("my data.parquet", "PAR1");
  CHECK_THROWS_WITH(TokenFile::open(table),
                    ContainsSubstring("pyarrow.parquet") &&
                        ContainsSubstring("'" + table + "' | strata tokenize - --format jsonl"));
}

TEST_CASE("of a folder, what is not text is skipped and counted") {
  const ScratchFolder folder;
  folder.write("texts/a.txt", "text");
  folder.write("texts/b.txt", "{\"text\": 1}");
  folder.write("texts/c.txt", "\x1f\x8b\x08");
  folder.write("texts/d.jsonl", "left out by its ending");
  REQUIRE(::mkfifo(folder.file("texts/e.txt").c_str(), 0600) == 0);
  std::filesystem::create_symlink("f.txt", folder.file("texts/f.txt"));
  std::filesystem::create_directory_symlink(folder.file("texts"), folder.file("texts/loop.txt"));
  const TokenizeStatistics made =
      tokenize({.inputs = {folder.file("texts")}, .output = folder.file("out.bin")});
  CHECK(text_of(folder.file("out.bin")) == "text$");
  CHECK(made.skipped_files == 2);
}

TEST_CASE("links in a folder lead to files of that folder, and those that do not are refused") {
  const ScratchFolder folder;
  folder.write("texts/more/a.txt", "text");
  std::filesystem::create_symlink("more/a.txt", folder.file("texts/b.txt"));
  const TokenizeOptions options{.inputs = {folder.file("texts")}, .output = folder.file("out.bin")};
  (void)tokenize(options);
  CHECK(text_of(folder.file("out.bin")) == "text$text$");
  const std::string secret = folder.write("texts-2/secret.txt", "secret");
  for (const std::string& target : {secret, std::string("../texts-2/secret.txt")}) {
    std::filesystem::create_symlink(target, folder.file("texts/c.txt"));
    CHECK_THROWS_WITH(tokenize(options), ContainsSubstring("texts/c.txt: is a link to ") &&
                                             ContainsSubstring("secret.txt, out of the folder"));
    CHECK_NOTHROW(tokenize({.inputs = {folder.file("texts/c.txt")},
                            .output = folder.file("named-" + std::to_string(target.size()))}));
    std::filesystem::remove(folder.file("texts/c.txt"));
  }
  CHECK(text_of(folder.file("out.bin")) == "text$text$");
}

TEST_CASE("characters that the pieces of a file cut in two stay valid") {
  const ScratchFolder folder;
  for (std::size_t before = 0; before < 4; ++before) {
    std::string text(before, 'a');
    while (text.size() < 3'000'000) text += "\xf0\x9f\x98\x80";  // four bytes each
    const std::string file = folder.write("a.txt", text);
    (void)tokenize({.inputs = {file}, .output = folder.file("out.bin")});
    const bool whole = text_of(folder.file("out.bin")) == text + "$";
    CHECK(whole);
    folder.write("a.txt", text.substr(0, text.size() - 1));
    REQUIRE_THROWS_WITH(tokenize({.inputs = {file}, .output = folder.file("out.bin")}),
                        ContainsSubstring("UTF-8"));
  }
}

TEST_CASE("an input that is no file or cannot be found is named, without waiting") {
  const ScratchFolder folder;
  REQUIRE(::mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  std::filesystem::create_symlink("a", folder.file("a"));
  for (const std::string& input :
       {folder.file("pipe"), std::string("/dev/zero"), folder.file("a"), folder.file("none"),
        folder.file(std::string(300, 'n')), folder.file(std::string(5000, 'n'))}) {
    REQUIRE_THROWS_AS(tokenize({.inputs = {input}, .output = folder.file("out.bin")}), IoError);
  }
}

TEST_CASE("tokenize never replaces its input, whatever it is called") {
  const ScratchFolder folder;
  const std::string text = folder.write("texts/a.txt", "text");
  const std::string other = folder.write("b.txt", "other");
  std::filesystem::create_hard_link(text, folder.file("hard.bin"));
  std::filesystem::create_symlink(text, folder.file("soft.bin"));
  for (const std::string& output : {text, folder.file("texts/../texts/a.txt"),
                                    folder.file("hard.bin"), folder.file("soft.bin")}) {
    for (const std::string& input : {text, folder.file("texts")}) {
      TokenizeOptions options{.inputs = {other, input}, .output = output};
      options.overwrite = true;
      REQUIRE_THROWS_WITH(tokenize(options), ContainsSubstring("both input and output"));
      options.output = folder.file("out.bin");
      options.validation_output = output;
      options.validation_fraction = 0.5;
      REQUIRE_THROWS_WITH(tokenize(options), ContainsSubstring("both input and output"));
    }
  }
  REQUIRE_THROWS_WITH(
      tokenize({.inputs = {folder.file("texts")}, .output = folder.file("texts/new.txt")}),
      ContainsSubstring("input folder"));
  std::ifstream stream(text);
  CHECK(std::string(std::istreambuf_iterator<char>(stream), {}) == "text");
  CHECK(folder.entries() == 4);
}

TEST_CASE("tokenize replaces token files, and other files only if told to") {
  const ScratchFolder folder;
  const std::string text = folder.write("a.txt", "text");
  const std::string notes = folder.write("notes", "mine");
  TokenizeOptions options{.inputs = {text}, .output = notes};
  REQUIRE_THROWS_WITH(tokenize(options), ContainsSubstring("--overwrite"));
  options.overwrite = true;
  (void)tokenize(options);
  options.overwrite = false;
  (void)tokenize(options);
  CHECK(text_of(notes) == "text$");
}

TEST_CASE(
    "an output that is a link, pipe, device or folder is refused, also if told to overwrite") {
  const ScratchFolder folder;
  const std::string text = folder.write("a.txt", "text");
  const std::string target = folder.write("target", "mine");
  std::filesystem::create_symlink(target, folder.file("link"));
  std::filesystem::create_symlink("nothing", folder.file("dangling"));
  std::filesystem::create_symlink("/dev/null", folder.file("device"));
  std::filesystem::create_directories(folder.file("folder"));
  REQUIRE(::mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  const std::size_t entries = folder.entries();
  for (const std::string& output :
       {folder.file("link"), folder.file("dangling"), folder.file("device"),
        std::string("/dev/null"), folder.file("folder"), folder.file("pipe"),
        folder.file(std::string(300, 'n')), folder.file(std::string(5000, 'n')),
        folder.file("none/out.bin")}) {
    TokenizeOptions options{.inputs = {text}, .output = output};
    options.overwrite = true;
    REQUIRE_THROWS_AS(tokenize(options), IoError);
  }
  CHECK(folder.entries() == entries);
  CHECK(std::filesystem::is_symlink(folder.file("link")));
  CHECK(std::filesystem::is_character_file("/dev/null"));
  std::ifstream stream(target);
  CHECK(std::string(std::istreambuf_iterator<char>(stream), {}) == "mine");
}

TEST_CASE("a name as long as the system takes is a name for an output") {
  const ScratchFolder folder;
  const std::string output = folder.file(std::string(255, 'n'));
  (void)tokenize({.inputs = {folder.write("a.txt", "text")}, .output = output});
  CHECK(text_of(output) == "text$");
}

TEST_CASE("two outputs that are one file are refused") {
  const ScratchFolder folder;
  const std::string text = folder.write("a.txt", "text");
  std::filesystem::create_directory_symlink(folder.file("."), folder.file("here"));
  (void)tokenize({.inputs = {text}, .output = folder.file("there.bin")});
  std::filesystem::create_hard_link(folder.file("there.bin"), folder.file("again.bin"));
  const auto with = [&](const std::string& training, const std::string& validation) {
    return TokenizeOptions{.inputs = {text},
                           .output = training,
                           .validation_output = validation,
                           .validation_fraction = 0.5};
  };
  const std::string out = folder.file("out.bin");
  for (const std::string& same : {out, folder.file("./out.bin"), folder.file("here/out.bin")}) {
    REQUIRE_THROWS_WITH(tokenize(with(out, same)), ContainsSubstring("one file"));
  }
  REQUIRE_THROWS_WITH(tokenize(with(folder.file("there.bin"), folder.file("again.bin"))),
                      ContainsSubstring("one file"));
}

TEST_CASE("tokenizing that is broken off leaves the earlier file and nothing else", "[long]") {
  const ScratchFolder folder;
  const std::string text = folder.write("a.txt", "text");
  const std::string out = folder.file("out.bin");
  (void)tokenize({.inputs = {text}, .output = out});
  const std::string records = folder.write("b.jsonl", "");
  std::ofstream lines(records);
  for (int i = 0; i < 5; ++i) lines << R"({"text": ")" << std::string(1 << 20, 'b') << "\"}\n";
  lines.close();
  for (int calls = 0; calls < 6; ++calls) {
    TokenizeOptions options{.inputs = {records}, .output = out};
    int left = calls;
    options.progress = [&](const TokenizeProgress&) {
      if (left-- == 0) throw Error("enough");
    };
    REQUIRE_THROWS_WITH(tokenize(options), ContainsSubstring("enough"));
    CHECK(text_of(out) == "text$");
    CHECK(folder.entries() == 3);
  }
}

TEST_CASE("a text that is cut short while it is read gives an error that names it") {
  const ScratchFolder folder;
  const std::string text = folder.write("a.txt", std::string(20 << 20, 'b'));
  TokenizeOptions options{.inputs = {text}, .output = folder.file("out.bin")};
  options.progress = [&](const TokenizeProgress&) { std::filesystem::resize_file(text, 4096); };
  REQUIRE_THROWS_WITH(tokenize(options), ContainsSubstring("a.txt"));
  CHECK(folder.entries() == 1);
}

}  // namespace strata
