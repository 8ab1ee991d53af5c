// Each step changes the list of tokens that the one before it has left, as in the reference.

#include "tokenizer/decoder.h"

#include <optional>

#include "tokenizer/byte_level.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/unicode.h"

namespace strata {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

struct Sequence {
  std::size_t bytes;
  bool valid;
};

/// Returns the code point at `at`, or the longest beginning of one, which one U+FFFD replaces.
Sequence sequence_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, true};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return {1, false};
  if (at + 1 >= text.size()) return {1, false};
  const unsigned lowest = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned highest = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < lowest || byte(1) > highest) return {1, false};
  for (std::size_t i = 2; i < length; ++i) {
    if (at + i >= text.size() || !is_continuation(text[at + i])) return {i, false};
  }
  return {length, true};
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size();) {
    const Sequence sequence = sequence_at(bytes, at);
    text += sequence.valid ? bytes.substr(at, sequence.bytes) : kReplacement;
    at += sequence.bytes;
  }
  return text;
}

/// Returns the byte of a token <0xAB>.
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto digit = [&](char c) {
    return kDigits.find(c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c);
  };
  const std::size_t high = digit(token[3]);
  const std::size_t low = digit(token[4]);
  if (high == kDigits.npos || low == kDigits.npos) return std::nullopt;
  return static_cast<char>(high << 4 | low);
}

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
      for (std::size_t i = 0; i < bytes.size(); ++i) text += kReplacement;
    }
    result.push_back(std::move(text));
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (const auto byte = byte_of(token)) {
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

void Decoder::add(const JsonSection& section) {
  const std::string type = section.type();
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
                      .text = section.at("replacement").text(),
                      .strips_first = scheme != "never"});
  } else if (type == "Replace") {
    const JsonSection pattern = section.at("pattern").at("String");
    if (pattern.is_null()) section.refuse("a pattern other than String");
    steps_.push_back(
        {.kind = Kind::kReplace, .text = pattern.text(), .to = section.at("content").text()});
  } else if (type == "Strip") {
    steps_.push_back({.kind = Kind::kStrip,
                      .text = section.at("content").text(),
                      .left = section.at("start").count(),
                      .right = section.at("stop").count()});
    if (steps_.back().text.empty()) section.at("content").fail("a character is expected");
  } else if (type == "Sequence") {
    for (const JsonSection& step : section.at("decoders").items()) add(step);
  } else {
    section.refuse("the decoder " + type);
  }
}

void Decoder::apply(const Step& step, std::vector<std::string>& tokens) {
  if (step.kind == Kind::kByteFallback) return join_bytes(tokens);
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
      token = replaced(token, step.text, step.to);
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
  for (const Step& step : steps_) apply(step, tokens);
  return joined(tokens);
}

}  // namespace strata
