// Steps are flattened when they are read; a text that no step changes is not copied.

#include "tokenizer/normalizer.h"

#include "tokenizer/unicode.h"

namespace strata {

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  std::size_t at = 0;
  while (!from.empty()) {
    const std::size_t found = text.find(from, at);
    if (found == text.npos) break;
    result += text.substr(at, found - at);
    result += to;
    at = found + from.size();
  }
  result += text.substr(at);
  return result;
}

namespace {

std::string with_single_spaces(std::string_view text) {
  std::string result;
  bool after_space = true;
  for (const char c : text) {
    if (c != ' ' || !after_space) result += c;
    after_space = c == ' ';
  }
  return result;
}

}  // namespace

Normalizer Normalizer::read(const JsonSection& section) {
  Normalizer normalizer;
  if (!section.is_null()) normalizer.add(section);
  return normalizer;
}

void Normalizer::add(const JsonSection& section) {
  const std::string type = section.type();
  if (type == "NFC") {
    add_nfc();
  } else if (type == "Prepend") {
    add_prepend(section.at("prepend").text());
  } else if (type == "Replace") {
    const JsonSection pattern = section.at("pattern");
    if (pattern.at("String").is_null()) pattern.refuse("a pattern other than String");
    add_replace(pattern.at("String").text(), section.at("content").text());
  } else if (type == "Sequence") {
    for (const JsonSection& step : section.at("normalizers").items()) add(step);
  } else {
    section.refuse("the normalizer " + type);
  }
}

std::string_view Normalizer::apply(std::string_view text, std::string& buffer) const {
  for (const Step& step : steps_) {
    if (step.kind == Kind::kNfc) {
      if (is_nfc_quick(text)) continue;
      buffer = nfc(text);
    } else if (step.kind == Kind::kPrepend) {
      if (text.empty()) continue;
      buffer = step.text + std::string(text);
    } else if (step.kind == Kind::kCollapseSpaces) {
      if (!text.starts_with(' ') && text.find("  ") == text.npos) continue;
      buffer = with_single_spaces(text);
    } else if (step.kind == Kind::kStripEnd) {
      while (text.ends_with(step.text)) text.remove_suffix(step.text.size());
      continue;
    } else {
      if (text.find(step.text) == text.npos) continue;
      buffer = replaced(text, step.text, step.to);
    }
    text = buffer;
  }
  return text;
}

}  // namespace strata
