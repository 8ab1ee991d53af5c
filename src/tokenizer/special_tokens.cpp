#include "tokenizer/special_tokens.h"

#include <algorithm>

#include "tokenizer/json_section.h"

namespace strata {
namespace {

/// Returns the id of a token that is named as a text or as an added token.
std::optional<std::int32_t> read_special(const JsonSection& section, const TokenTable& tokens) {
  if (section.is_null()) return std::nullopt;
  const std::string text =
      section.value().is_object() ? section.at("content").text() : section.text();
  const std::optional<std::int32_t> found = tokens.find(text);
  if (!found) section.fail("the vocabulary does not have " + shown(section.value()));
  return found;
}

}  // namespace

SpecialTokens special_tokens_of(std::string_view config, const TokenizerParts& parts) {
  const auto json = parse_json<nlohmann::json>(config);
  const JsonSection root(json, "$");
  SpecialTokens special = parts.special_tokens;
  if (const auto bos = read_special(root.at("bos_token"), parts.tokens)) special.bos = bos;
  if (const auto eos = read_special(root.at("eos_token"), parts.tokens)) special.eos = eos;
  const std::vector<std::int32_t>& before = parts.around.before;
  const bool puts = special.bos && std::ranges::find(before, *special.bos) != before.end();
  special.begins_texts = special.bos && root.at("add_bos_token").flag_or(puts);
  return special;
}

}  // namespace strata
