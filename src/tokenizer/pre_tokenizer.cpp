// Splits texts step by step: each step cuts the pieces that the one before it has made.

#include "tokenizer/pre_tokenizer.h"

#include <algorithm>

#include "tokenizer/normalizer.h"
#include "tokenizer/piece_text.h"
#include "tokenizer/unicode.h"

namespace strata {
namespace {

/// Patterns of which every code point is part of a match.
bool matches_everything(SplitPattern pattern) {
  switch (pattern) {
    case SplitPattern::kGpt2:
    case SplitPattern::kCl100k:
    case SplitPattern::kLlama3:
    case SplitPattern::kQwen2:
    case SplitPattern::kQwen35:
    case SplitPattern::kO200k:
    case SplitPattern::kTekken: return true;
    default: return false;
  }
}

/// A run of numbers is a piece, and so is what lies between two.
const char* number_runs(const char* begin, const char* end) {
  const Splitter number = splitter_of(SplitPattern::kNumber);
  const auto is_one = [](const char* at) { return is_number(decode_utf8(at).value); };
  const char* at = number(begin, end);
  while (at != end && is_one(at) && is_one(begin)) at = number(at, end);
  return at;
}

}  // namespace

PreTokenizer PreTokenizer::read(const JsonSection& section) {
  PreTokenizer pre_tokenizer;
  if (!section.is_null()) pre_tokenizer.add(section);
  const std::vector<Step>& steps = pre_tokenizer.steps_;
  pre_tokenizer.is_one_pattern_ = steps.size() == 1 && steps[0].kind == Kind::kSplit;
  return pre_tokenizer;
}

void PreTokenizer::add_pattern(SplitPattern pattern) {
  steps_.push_back(split_step(pattern));
  is_one_pattern_ = steps_.size() == 1;
}

std::optional<std::vector<SplitPattern>> PreTokenizer::patterns() const {
  std::vector<SplitPattern> patterns;
  for (const Step& step : steps_) {
    if (!step.pattern) return std::nullopt;
    patterns.push_back(*step.pattern);
  }
  return patterns;
}

std::optional<PreTokenizer::SpaceRule> PreTokenizer::space_rule() const {
  if (steps_.size() != 1 || steps_[0].kind != Kind::kMetaspace || steps_[0].text != kSpaceMark) {
    return std::nullopt;
  }
  return SpaceRule{.prefix_first = steps_[0].prepend != Prepend::kNever,
                   .prefix_later = steps_[0].prepend == Prepend::kAlways,
                   .splits = steps_[0].splits};
}

bool PreTokenizer::keeps_texts_whole() const {
  for (const Step& step : steps_) {
    if (step.kind != Kind::kMetaspace || step.splits) return false;
  }
  return !is_byte_level_;
}

void PreTokenizer::add(const JsonSection& section) {
  const std::string type = section.type();
  if (is_byte_level_) section.refuse("a pre-tokenizer behind ByteLevel");
  section.require_room(steps_.size());
  if (type == "Split") {
    add_split(section);
  } else if (type == "ByteLevel") {
    add_byte_level(section);
  } else if (type == "Metaspace") {
    add_metaspace(section);
  } else if (type == "Digits") {
    const bool individual = section.at("individual_digits").flag_or(false);
    steps_.push_back(individual ? split_step(SplitPattern::kNumber)
                                : Step{.kind = Kind::kSplit, .splitter = number_runs});
  } else if (type == "Sequence") {
    for (const JsonSection& step : section.at("pretokenizers").items()) add(step);
  } else {
    section.refuse("the pre-tokenizer " + type);
  }
}

void PreTokenizer::add_split(const JsonSection& section) {
  const std::string behavior = section.at("behavior").text();
  const bool invert = section.at("invert").flag_or(false);
  const JsonSection pattern = section.at("pattern");
  if (!pattern.at("String").is_null()) {
    if (behavior != "MergedWithPrevious" || invert) {
      section.at("behavior").refuse(behavior + " with a text as pattern");
    }
    steps_.push_back(
        {.kind = Kind::kSplitBehind, .search = TextSearch(pattern.at("String").pattern_text())});
    return;
  }
  const auto known = split_pattern_of(pattern.at("Regex").text());
  if (!known) {
    pattern.at("Regex").refuse("the regular expression " + shown(pattern.at("Regex").value()));
  }
  const bool keeps_matches = behavior == "Removed" && invert && matches_everything(*known);
  if (!keeps_matches && (behavior != "Isolated" || invert)) {
    section.at("behavior").refuse(behavior + (invert ? " with invert" : ""));
  }
  steps_.push_back(split_step(*known));
}

void PreTokenizer::add_byte_level(const JsonSection& section) {
  if (section.at("add_prefix_space").flag_or(true)) steps_.push_back({.kind = Kind::kPrefixSpace});
  if (section.at("use_regex").flag_or(true)) {
    steps_.push_back(split_step(SplitPattern::kGpt2));
  }
  is_byte_level_ = true;
}

void PreTokenizer::add_metaspace(const JsonSection& section) {
  const auto is_metaspace = [](const Step& step) { return step.kind == Kind::kMetaspace; };
  if (std::any_of(steps_.begin(), steps_.end(), is_metaspace)) {
    section.refuse("a second Metaspace");  // each writes into what the one before it has written
  }
  Step step{.kind = Kind::kMetaspace, .text = section.at("replacement").text()};
  if (step.text.empty() || decode_utf8(step.text.data()).bytes != step.text.size()) {
    section.at("replacement").fail("a character is expected");
  }
  const bool adds = section.at("add_prefix_space").flag_or(true);
  const std::string scheme = section.at("prepend_scheme").text_or(adds ? "always" : "never");
  if (scheme == "never") {
    step.prepend = Prepend::kNever;
  } else if (scheme == "first") {
    step.prepend = Prepend::kFirst;
  } else if (scheme != "always") {
    section.at("prepend_scheme").refuse(scheme);
  }
  step.splits = section.at("split").flag_or(true);
  steps_.push_back(std::move(step));
}

void PreTokenizer::run(std::size_t step, std::string_view text, Place place,
                       OnPiece on_piece) const {
  if (text.empty()) return;
  if (step == steps_.size()) return on_piece(text);
  const Step& now = steps_[step];
  if (now.kind == Kind::kMetaspace) return run_metaspace(step, text, place, on_piece);
  if (now.kind == Kind::kPrefixSpace) {
    if (text.starts_with(' ')) return run(step + 1, text, place, on_piece);
    return run(step + 1, ' ' + std::string(text), place, on_piece);
  }
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    const char* next = nullptr;
    if (now.kind == Kind::kSplit) {
      next = now.splitter(at, end);
    } else {
      const std::string_view rest(at, static_cast<std::size_t>(end - at));
      const std::size_t found = now.search.in(rest);
      next = found == rest.npos ? end : at + found + now.search.size();
    }
    run(step + 1, {at, static_cast<std::size_t>(next - at)}, place, on_piece);
    place = Place::kLater;
    at = next;
  }
}

void PreTokenizer::run_metaspace(std::size_t step, std::string_view text, Place place,
                                 OnPiece on_piece) const {
  const Step& now = steps_[step];
  std::string written = replaced(text, " ", now.text);
  const bool prepends =
      now.prepend == Prepend::kAlways || (now.prepend == Prepend::kFirst && place == Place::kBegin);
  if (prepends && !written.starts_with(now.text)) written.insert(0, now.text);
  if (!now.splits) return run(step + 1, written, place, on_piece);
  const std::string_view all = written;
  for (std::size_t begin = 0; begin < all.size();) {
    std::size_t end =
        all.find(now.text, begin + (all.substr(begin).starts_with(now.text) ? now.text.size() : 0));
    if (end == all.npos) end = all.size();
    run(step + 1, all.substr(begin, end - begin), place, on_piece);
    place = Place::kLater;
    begin = end;
  }
}

}  // namespace strata
