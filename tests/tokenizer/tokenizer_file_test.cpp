// Ids and decoded texts of models that are no tokenizer.json, against those of the libraries that
// the files are from; and what is refused.

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/tokenizer/tokenizer.h"
#include "support/catch.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

using Ids = std::vector<std::int32_t>;

const std::string kFolder = STRATA_TOKENIZER_GOLDENS;

nlohmann::json goldens() {
  std::ifstream in(kFolder + "/files.json");
  return nlohmann::json::parse(in);
}

std::string refusal_of(const std::string& contents) {
  const ScratchFolder folder;
  try {
    (void)Tokenizer::load(folder.write("tokenizer.model", contents));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("ids and texts of SentencePiece models are those of the library") {
  const nlohmann::json golden = goldens();
  EncodeCache cache;
  for (const auto& [name, expected] : golden["models"].items()) {
    const auto tokenizer = Tokenizer::load(kFolder + '/' + name + ".model");
    for (std::size_t i = 0; i < golden["texts"].size(); ++i) {
      INFO(name << ", text " << i);
      Ids ids;
      tokenizer->encode(golden["texts"][i].get<std::string>(), {}, cache, ids);
      CHECK(ids == expected["ids"][i].get<Ids>());
      CHECK(tokenizer->decode(ids) == expected["decoded"][i].get<std::string>());
    }
    for (std::size_t i = 0; i < expected["lists"].size(); ++i) {
      INFO(name << ", list " << i);
      CHECK(tokenizer->decode(expected["lists"][i].get<Ids>(), {.skip_special = true}) ==
            expected["texts_of_lists"][i].get<std::string>());
    }
  }
}

TEST_CASE("a SentencePiece model names the tokens around texts") {
  const auto tokenizer = Tokenizer::load(kFolder + "/sentencepiece.model");
  CHECK(tokenizer->special_tokens().bos == 1);
  CHECK(tokenizer->special_tokens().eos == 2);
  CHECK(tokenizer->special_tokens().begins_texts);
  EncodeCache cache;
  Ids ids;
  tokenizer->encode("</s>", {.parse_special = true, .add_special = true}, cache, ids);
  CHECK(ids == Ids{1, 2});
}

TEST_CASE("damaged models are refused, wherever they end") {
  const std::string whole = read_text_file(kFolder + "/sentencepiece.model", std::size_t{1} << 20);
  for (std::size_t bytes = 1; bytes < whole.size(); bytes += 97) {
    INFO(bytes);
    CHECK_THAT(refusal_of(whole.substr(0, bytes)), ContainsSubstring("tokenizer.model: "));
  }
}

}  // namespace strata
