// Tokenizers of every kind that is read, damaged as bytes, as values and as trees, and asked for
// the ids of a text, the text of ids, or a token file.

#include <algorithm>
#include <array>

#include "fuzz/cases.h"
#include "fuzz/damage_tree.h"
#include "fuzz/nasty.h"

namespace strata::fuzz {
namespace {

constexpr const char* kText =
    "It's 12345 words,  in caf\xc3\xa9 \xe4\xbd\xa0\xe5\xa5\xbd\n\n\t<s> </s> <|eot|>don't\r\n "
    "e\xcc\x81";

void mutate(Dice& dice, std::string& json) {
  for (std::size_t count = 1 + dice.below(3); count > 0; --count) {
    if (dice.chance(0.6)) {
      damage_tree(dice, json);
    } else if (dice.chance(0.5)) {
      damage_json(dice, json);
    } else {
      damage(dice, json);
    }
  }
}

/// Ids as `tokenizer decode` reads them.
std::string some_id_text(Dice& dice) {
  std::string text;
  for (std::size_t i = 0; i < 40; ++i) text += std::to_string(dice.below(700)) + ' ';
  if (dice.chance(0.2)) damage(dice, text);
  return text;
}

}  // namespace

Case make_tokenizer_case(Dice& dice, const Material& material) {
  std::string config =
      R"({"add_bos_token": true, "bos_token": "<s>", "eos_token": {"content": "</s>"}})";
  std::string json = dice.pick(material.tokenizers);
  if (dice.chance(0.1)) {
    mutate(dice, config);
  } else {
    mutate(dice, json);
  }
  std::string text = kText;
  if (dice.chance(0.1)) damage(dice, text);
  Case made;
  made.files = {
      {"model/tokenizer.json", json}, {"text.txt", text}, {"ids.txt", some_id_text(dice)}};
  if (dice.chance(0.5)) made.files.push_back({"model/tokenizer_config.json", config});
  switch (dice.below(4)) {
    case 0: made.arguments = {"tokenizer", "inspect", "model"}; break;
    case 1: made.arguments = {"tokenizer", "decode", "model", "ids.txt"}; break;
    case 2: made.arguments = {"tokenizer", "encode", "model", "text.txt"}; break;
    default:
      made.arguments = {"tokenize", "text.txt", "--tokenizer", "model", "--output", "out.bin"};
      made.outputs = {"out.bin"};
  }
  if (dice.chance(0.3) && made.arguments[1] == "encode") {
    made.arguments.insert(made.arguments.end(), {"--parse-special", "--add-special"});
  }
  made.subjects = {"tokenizer.json", "tokenizer_config.json", "text.txt", "ids.txt"};
  return made;
}

}  // namespace strata::fuzz
