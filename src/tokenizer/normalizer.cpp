// Normalizes texts step by step. Steps are flattened when they are read; a text that no step
// changes is not copied.

#include "tokenizer/normalizer.h"

#include "tokenizer/piece_text.h"
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

std::string replaced(std::string_view text, const TextSearch& from, std::string_view to,
                     TextBudget& budget) {
  std::string result;
  while (from.size() > 0) {
    const std::size_t found = from.in(text);
    if (found == text.npos) break;
    budget.write(found + to.size());
    result += text.substr(0, found);
    result += to;
    text.remove_prefix(found + from.size());
  }
  budget.write(text.size());
  result += text;
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
  if (type == "Sequence") {
    for (const JsonSection& step : section.at("normalizers").items()) add(step);
    return;
  }
  section.require_room(steps_.size());
  if (type == "NFC") {
    add_nfc();
  } else if (type == "Prepend") {
    add_prepend(section.at("prepend").text());
  } else if (type == "Replace") {
    const JsonSection pattern = section.at("pattern");
    if (pattern.at("String").is_null()) pattern.refuse("a pattern other than String");
    add_replace(pattern.at("String").pattern_text(), section.at("content").text());
  } else {
    section.refuse("the normalizer " + type);
  }
  steps_.back().place = section.place();
}

bool Normalizer::is_nfc() const { return steps_.size() == 1 && steps_[0].kind == Kind::kNfc; }

std::optional<Normalizer::SpaceRule> Normalizer::space_rule() const {
  SpaceRule rule;
  std::size_t at = 0;
  if (!steps_.empty() && steps_[0].kind == Kind::kPrepend && steps_[0].text == kSpaceMark) {
    rule.prefix = true;
    at = 1;
  }
  const bool marks = at + 1 == steps_.size() && steps_[at].kind == Kind::kReplace &&
                     steps_[at].replaces_space && steps_[at].text == kSpaceMark;
  return marks ? std::optional(rule) : std::nullopt;
}

std::string_view Normalizer::apply(std::string_view text, std::string& buffer,
                                   TextBudget& budget) const {
  for (const Step& step : steps_) {
    budget.begin_rule(step.place);
    if (step.kind == Kind::kNfc) {
      if (is_nfc_quick(text)) continue;
      buffer = nfc(text);
      budget.write(buffer.size());
    } else if (step.kind == Kind::kPrepend) {
      if (text.empty()) continue;
      budget.write(step.text.size() + text.size());
      buffer = step.text + std::string(text);
    } else if (step.kind == Kind::kCollapseSpaces) {
      if (!text.starts_with(' ') && text.find("  ") == text.npos) continue;
      budget.write(text.size());
      buffer = with_single_spaces(text);
    } else if (step.kind == Kind::kStripEnd) {
      while (text.ends_with(step.text)) text.remove_suffix(step.text.size());
      continue;
    } else {
      if (step.search.in(text) == text.npos) continue;
      buffer = replaced(text, step.search, step.text, budget);
    }
    text = buffer;
  }
  budget.keep(text.size());
  return text;
}

}  // namespace strata
