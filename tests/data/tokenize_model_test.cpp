// Tests token files that are made with a model's tokenizer: their ids against those of the library
// `tokenizers`, what stands around documents, and what is refused.
#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/data/compatible.h"
#include "strata/data/token_file.h"
#include "strata/data/tokenize.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/log_text.h"
#include "support/places.h"
#include "support/scratch_folder.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

using Ids = std::vector<std::int32_t>;

constexpr std::int32_t kBos = 600;  // of tests/golden/data/tokenizer/llama3.json
constexpr std::int32_t kEos = 601;

/// A folder with the tokenizer of the goldens, as models have them.
struct ModelFolder {
  explicit ModelFolder(const std::string& config) {
    fs::create_directories(folder.file("model"));
    // The post-processor alone would say what stands around texts.
    nlohmann::json tokenizer = test::read_json(test::tokenizer_goldens_folder() + "/llama3.json");
    if (config.empty()) tokenizer.erase("post_processor");
    folder.write("model/tokenizer.json", json_text(tokenizer));
    if (!config.empty()) folder.write("model/tokenizer_config.json", config);
  }
  [[nodiscard]] TokenizeOptions options(const std::string& input) const {
    return {.inputs = {input},
            .output = folder.file("out.bin"),
            .tokenizer = folder.file("model"),
            .overwrite = true};
  }
  [[nodiscard]] Ids ids_of(const TokenizeOptions& options) const {
    (void)tokenize(options);
    const auto tokens = TokenFile::open(options.output);
    Ids ids(static_cast<std::size_t>(tokens->size()));
    tokens->read(0, ids);
    return ids;
  }
  ScratchFolder folder;
};

Ids around(Ids ids, bool bos, bool eos) {
  if (bos) ids.insert(ids.begin(), kBos);
  if (eos) ids.push_back(kEos);
  return ids;
}

constexpr const char* kBothNamed =
    R"({"bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "</s>"})";

}  // namespace

TEST_CASE("token files hold the ids that the reference gives each document") {
  const nlohmann::json golden = test::read_json(test::tokenizer_goldens_folder() + "/bpe.json");
  const nlohmann::json& texts = golden["texts"];
  const nlohmann::json& expected = golden["tokenizers"]["llama3"]["ordinary"]["ids"];
  const ModelFolder model("");
  Ids all;
  std::vector<std::int64_t> ends;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto text = texts[i].get<std::string>();
    if (text.empty() || text.find('\0') != text.npos) continue;  // no document, or not text
    model.folder.write("texts/" + std::to_string(100 + i) + ".txt", text);
    for (const auto& id : expected[i]) all.push_back(id.get<std::int32_t>());
    ends.push_back(std::ssize(all));
  }
  REQUIRE(ends.size() > 10);
  TokenizeOptions options = model.options(model.folder.file("texts"));
  options.format = InputFormat::kText;
  CHECK(model.ids_of(options) == all);
  std::vector<std::int64_t> found;
  TokenFile::open(options.output)->document_ends_in(0, std::ssize(all), found);
  CHECK(found == ends);
}

TEST_CASE("documents begin and end as the tokenizer's config says, or as is asked for") {
  const ModelFolder model(kBothNamed);  // the post-processor puts <s> before texts
  const std::string text = model.folder.write("a.txt", "one two");
  TokenizeOptions options = model.options(text);
  const Ids both = model.ids_of(options);
  REQUIRE(both.size() > 3);
  const Ids plain(both.begin() + 1, both.end() - 1);
  CHECK(both == around(plain, true, true));
  options.bos = PutToken::kNever;
  CHECK(model.ids_of(options) == around(plain, false, true));
  options.eos = PutToken::kNever;
  CHECK(model.ids_of(options) == plain);

  const ModelFolder without_bos(
      R"({"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": false})");
  options = without_bos.options(text);
  CHECK(without_bos.ids_of(options) == around(plain, false, true));
  options.bos = PutToken::kAlways;
  CHECK(without_bos.ids_of(options) == both);
}

TEST_CASE("a document that begins or ends with special tokens gets no second ones") {
  const ModelFolder model(kBothNamed);
  TokenizeOptions options = model.options(model.folder.write("a.txt", "one two"));
  const Ids both = model.ids_of(options);
  options.parse_special = true;
  for (const char* text : {"one two", "<s>one two", "one two</s>", "<s>one two</s>"}) {
    INFO(text);
    model.folder.write("a.txt", text);
    CHECK(model.ids_of(options) == both);
  }
  model.folder.write("a.txt", "<s>");
  CHECK(model.ids_of(options) == Ids{kBos, kEos});
  // Further ones are the author's, and so are texts that are no tokens.
  model.folder.write("a.txt", "</s>one two</s></s>");
  CHECK(std::ranges::count(model.ids_of(options), kEos) == 3);
  options.parse_special = false;
  CHECK(std::ranges::count(model.ids_of(options), kEos) == 1);
}

TEST_CASE("documents that get no end token, or keep texts of special ones, are warned of once") {
  const auto count_of = [](const char* words, const ModelFolder& model, PutToken eos) {
    TokenizeOptions options = model.options(model.folder.write(
        "a.jsonl", "{\"text\": \"<s>a\"}\n{\"text\": \"b\"}\n{\"text\": \"<s>c\"}\n"));
    options.eos = eos;
    const test::LogText log;
    (void)tokenize(options);
    const std::string text = log.text();
    int count = 0;
    for (std::size_t at = 0; (at = text.find(words, at)) != text.npos; ++at) ++count;
    return count;
  };
  const char* const no_end = "documents end with no token";
  CHECK(count_of(no_end, ModelFolder(""), PutToken::kAuto) == 1);
  CHECK(count_of(no_end, ModelFolder(""), PutToken::kNever) == 0);
  CHECK(count_of(no_end, ModelFolder(kBothNamed), PutToken::kAuto) == 0);
  const char* const stays_text = "begins with <s>, which stays text";
  CHECK(count_of(stays_text, ModelFolder(kBothNamed), PutToken::kAuto) == 1);
  CHECK(count_of(stays_text, ModelFolder(""), PutToken::kAuto) == 0);
}

TEST_CASE("texts of special tokens are text unless asked for") {
  const ModelFolder model("");
  TokenizeOptions options = model.options(model.folder.write("a.txt", "x</s>y"));
  const Ids ordinary = model.ids_of(options);
  CHECK(std::count(ordinary.begin(), ordinary.end(), kEos) == 0);
  options.parse_special = true;
  const Ids parsed = model.ids_of(options);
  CHECK(std::count(parsed.begin(), parsed.end(), kEos) == 1);
}

TEST_CASE("special tokens that nobody names, and options without a tokenizer, are refused") {
  const ModelFolder model("");
  TokenizeOptions options = model.options(model.folder.write("a.txt", "x"));
  options.eos = PutToken::kAlways;
  CHECK_THROWS_AS(tokenize(options), ConfigError);
  CHECK_THROWS_WITH(tokenize(options), ContainsSubstring("--eos") &&
                                           ContainsSubstring("eos_token in tokenizer_config.json"));
  options.tokenizer.clear();
  CHECK_THROWS_WITH(tokenize(options), ContainsSubstring("are for --tokenizer"));
  options.tokenizer = model.folder.file("nowhere");
  CHECK_THROWS_AS(tokenize(options), IoError);
  CHECK(!fs::exists(options.output));
  const ModelFolder strange(R"({"eos_token": "<none>"})");
  CHECK_THROWS_WITH(
      tokenize(strange.options(options.inputs[0])),
      ContainsSubstring("tokenizer_config.json: $.eos_token") && ContainsSubstring("<none>"));
}

TEST_CASE("a token file of another tokenizer than the model's is refused, its own is taken") {
  const ModelFolder model("");
  const std::string text = model.folder.write("a.txt", "one two three");
  (void)tokenize(model.options(text));
  const auto own = TokenFile::open(model.folder.file("out.bin"));
  const ModelTokenizer wanted{.vocabulary = 700, .folder = model.folder.file("model")};
  CHECK_NOTHROW(require_tokenizer_of(wanted, *own));
  fs::copy_file(test::tokenizer_goldens_folder() + "/gpt2.json",
                model.folder.file("model/tokenizer.json"), fs::copy_options::overwrite_existing);
  CHECK_THROWS_AS(require_tokenizer_of(wanted, *own), IoError);
  CHECK_THROWS_WITH(
      require_tokenizer_of(wanted, *own),
      ContainsSubstring("is from another tokenizer") && ContainsSubstring("--tokenizer"));
}

}  // namespace strata
