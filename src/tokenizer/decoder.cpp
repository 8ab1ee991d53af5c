// Decodes tokens step by step. Each step changes the list of tokens that the one before it has
// left, as in the reference.

#include "tokenizer/decoder.h"

#include <utility>

#include "tokenizer/byte_level.h"
#include "tokenizer/lossy_utf8.h"
#include "tokenizer/normalizer.h"

namespace strata {
namespace {

std::string joined(const std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

void join_bytes(std::vector<std::string>& tokens) {
  std::vector<std::string> result;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    std::string text = to_valid_utf8(bytes);
    if (text != bytes) {
      text.clear();
      for (std::size_t i = 0; i < bytes.size(); ++i) text += kReplacementCharacter;
    }
    result.push_back(std::move(text));
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (const auto byte = byte_of_token(token)) {
      bytes += *byte;
      continue;
    }
    flush();
    result.push_back(std::move(token));
  }
  flush();
  tokens = std::move(result);
}

std::string stripped(std::string_view token, std::string_view content, std::int32_t left,
                     std::int32_t right) {
  for (; left > 0 && token.starts_with(content); --left) token.remove_prefix(content.size());
  for (; right > 0 && token.ends_with(content); --right) token.remove_suffix(content.size());
  return std::string(token);
}

}  // namespace

Decoder Decoder::read(const JsonSection& section) {
  Decoder decoder;
  if (!section.is_null()) decoder.add(section);
  return decoder;
}

Decoder Decoder::byte_level() {
  Decoder decoder;
  decoder.steps_.push_back({.kind = Kind::kByteLevel});
  return decoder;
}

Decoder Decoder::sentencepiece(PieceRules rules) {
  Decoder decoder;
  decoder.steps_.push_back({.kind = Kind::kPieces, .piece_rules = std::move(rules)});
  return decoder;
}

void Decoder::add(const JsonSection& section) {
  const std::string type = section.type();
  if (type == "Sequence") {
    for (const JsonSection& step : section.at("decoders").items()) add(step);
    return;
  }
  section.require_room(steps_.size());
  if (type == "ByteLevel") {
    steps_.push_back({.kind = Kind::kByteLevel});
  } else if (type == "ByteFallback") {
    steps_.push_back({.kind = Kind::kByteFallback});
  } else if (type == "Fuse") {
    steps_.push_back({.kind = Kind::kFuse});
  } else if (type == "Metaspace") {
    const bool adds = section.at("add_prefix_space").flag_or(true);
    const std::string scheme = section.at("prepend_scheme").text_or(adds ? "always" : "never");
    steps_.push_back({.kind = Kind::kMetaspace,
                      .text = section.at("replacement").pattern_text(),
                      .strips_first = scheme != "never"});
  } else if (type == "Replace") {
    const JsonSection pattern = section.at("pattern").at("String");
    if (pattern.is_null()) section.refuse("a pattern other than String");
    steps_.push_back({.kind = Kind::kReplace,
                      .text = section.at("content").text(),
                      .search = TextSearch(pattern.pattern_text())});
  } else if (type == "Strip") {
    steps_.push_back({.kind = Kind::kStrip,
                      .text = section.at("content").text(),
                      .left = section.at("start").count(),
                      .right = section.at("stop").count()});
    if (steps_.back().text.empty()) section.at("content").fail("a character is expected");
  } else {
    section.refuse("the decoder " + type);
  }
  steps_.back().place = section.place();
}

void Decoder::apply(const Step& step, std::vector<std::string>& tokens, TextBudget& budget) {
  budget.begin_rule(step.place);
  if (step.kind == Kind::kByteFallback) return join_bytes(tokens);
  if (step.kind == Kind::kPieces) {
    const PieceRules& rules = step.piece_rules;
    for (const std::string& piece : tokens) {
      if (piece == rules.unknown) budget.write(rules.unknown_surface.size());
    }
    tokens = {text_of_pieces(tokens, rules)};
    return;
  }
  if (step.kind == Kind::kFuse) {
    tokens = {joined(tokens)};
    return;
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::string& token = tokens[i];
    if (step.kind == Kind::kByteLevel) {
      if (auto bytes = bytes_of_byte_level(token)) token = std::move(*bytes);
    } else if (step.kind == Kind::kMetaspace) {
      token = replaced(token, step.text, i == 0 && step.strips_first ? "" : " ");
    } else if (step.kind == Kind::kReplace) {
      token = replaced(token, step.search, step.text, budget);
    } else {
      token = stripped(token, step.text, step.left, step.right);
    }
  }
  if (step.kind == Kind::kByteLevel) tokens = {to_valid_utf8(joined(tokens))};
}

std::string Decoder::decode(std::vector<std::string> tokens) const {
  if (steps_.empty()) {
    std::string text;
    for (std::size_t i = 0; i < tokens.size(); ++i) text += (i > 0 ? " " : "") + tokens[i];
    return text;
  }
  std::size_t bytes = 0;
  for (const std::string& token : tokens) bytes += token.size();
  TextBudget budget(bytes);
  for (const Step& step : steps_) apply(step, tokens, budget);
  return joined(tokens);
}

}  // namespace strata
