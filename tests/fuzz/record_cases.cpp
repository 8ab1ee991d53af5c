// Files of records for `tokenize`: texts and conversations, damaged line by line, packed, and the
// packing damaged.

#include <algorithm>
#include <array>

#include "fuzz/cases.h"
#include "fuzz/damage_tree.h"
#include "fuzz/nasty.h"
#include "fuzz/packed.h"

namespace strata::fuzz {
namespace {

constexpr std::array<const char*, 7> kRecords{
    R"({"text": "a line of text", "id": 1})",
    R"({"id": [1, {"text": "inner"}], "text": "caf\u00e9 \ud83d\ude00\n"})",
    R"({"text": ""})",
    R"({"messages": [{"role": "user", "content": "What?"}, {"role": "assistant", "content": "That."}]})",
    R"({"messages": [{"role": "assistant", "content": null, "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]}]})",
    R"({"prompt": "1 + 1 =", "completion": " 2"})",
    ""};

std::string make_lines(Dice& dice) {
  const bool chats = dice.chance(0.3);
  std::string text;
  for (std::size_t count = 1 + dice.below(6); count > 0; --count) {
    std::string line = chats ? kRecords[3 + dice.below(3)] : kRecords[dice.below(3)];
    if (dice.chance(0.1)) line = dice.pick(kRecords);
    if (dice.chance(0.3)) damage_tree(dice, line);
    if (dice.chance(0.2)) damage_json(dice, line);
    if (dice.chance(0.1)) damage(dice, line);
    text += line + (dice.chance(0.95) ? "\n" : "\r\n");
  }
  return text;
}

/// Packs lines, in one part or two, with bytes behind them that may be none of the packing's.
CaseFile pack(Dice& dice, const std::string& text) {
  constexpr std::size_t kMostStored = 65'535;
  if (text.size() > kMostStored || dice.chance(0.4)) return {"records.jsonl", text};
  const bool gzip = dice.chance(0.5);
  std::size_t repeated = 0;
  if (dice.chance(0.05)) repeated = dice.chance(0.5) ? 2 : 1000;
  std::string bytes = gzip ? pack_gzip(text) : pack_zstd(text, repeated);
  if (dice.chance(0.2)) bytes += gzip ? pack_gzip(text) : pack_zstd(text, 0);
  if (dice.chance(0.5)) damage(dice, bytes);
  return {gzip ? "records.jsonl.gz" : "records.jsonl.zst", bytes};
}

}  // namespace

Case make_record_case(Dice& dice, const Material& material) {
  Case made;
  made.files = {pack(dice, make_lines(dice)), {"model/tokenizer.json", material.tokenizers[0]}};
  const std::string& name = made.files[0].name;
  made.arguments = {"tokenize", name, "--output", "out.bin", "--threads", "1"};
  const auto add = [&](double chance, const std::vector<std::string>& more) {
    if (!dice.chance(chance)) return;
    made.arguments.insert(made.arguments.end(), more.begin(), more.end());
  };
  add(0.7, {"--tokenizer", "model"});
  add(0.5, {"--chat-template", "chatml"});
  add(0.1, {"--loss", dice.chance(0.5) ? "completion" : "all"});
  add(0.1, {"--text-field", nasty_text(dice)});
  // Text has no limit of a line: what a bomb holds would be a document of its size.
  const bool as_text = dice.chance(0.5) && !name.ends_with(".zst");
  add(0.1, {"--format", as_text ? "text" : "jsonl"});
  add(0.1, {"--parse-special"});
  made.outputs = {"out.bin"};
  made.subjects = {name,     "out.bin",         "--chat-template", "--text-field",
                   "--loss", "--parse-special", "argument "};
  return made;
}

}  // namespace strata::fuzz
