// Recognizes the expressions of pre-tokenizers: lists the texts of those that are known, and who
// reads them so.

#include <array>
#include <string>

#include "tokenizer/splitter.h"

namespace strata {
namespace {

enum class Readers : std::uint8_t { kAll, kTiktokenOnly };

struct KnownText {
  SplitPattern pattern;
  Readers readers;
  std::string_view text;
};

/// regex_of() returns the first text of a pattern.
constexpr std::array kTexts = {
    KnownText{SplitPattern::kGpt2, Readers::kAll,
              R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    KnownText{SplitPattern::kGpt2, Readers::kTiktokenOnly,
              R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s)"},
    KnownText{SplitPattern::kCl100k, Readers::kTiktokenOnly,
              R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+)"
              R"(| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)"},
    KnownText{SplitPattern::kLlama3, Readers::kAll,
              R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
              R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    KnownText{SplitPattern::kQwen2, Readers::kAll,
              R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
              R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    KnownText{SplitPattern::kQwen35, Readers::kAll,
              R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
              R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    KnownText{SplitPattern::kO200k, Readers::kAll,
              R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
              R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
              R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
              R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
              R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    KnownText{SplitPattern::kTekken, Readers::kAll,
              R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
              R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
              R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    KnownText{SplitPattern::kNumber, Readers::kAll, R"(\p{N})"},
    KnownText{SplitPattern::kDeepSeekNumbers, Readers::kAll, R"(\p{N}{1,3})"},
    KnownText{SplitPattern::kDeepSeekCjk, Readers::kAll,
              "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"},
    KnownText{SplitPattern::kDeepSeekWords, Readers::kAll,
              R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
              R"(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)"
              R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    KnownText{SplitPattern::kDeepSeekCoderLines, Readers::kAll, R"([\r\n])"},
    KnownText{SplitPattern::kDeepSeekCoderWords, Readers::kAll, R"(\s?\p{L}+)"},
    KnownText{SplitPattern::kDeepSeekCoderPunctuation, Readers::kAll, R"(\s?\p{P}+)"},
    KnownText{SplitPattern::kDeepSeekCoderCjk, Readers::kAll,
              "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"},
};

std::string with_escaped_newlines(std::string_view regex) {
  std::string escaped;
  for (const char c : regex) {
    if (c == '\r') {
      escaped += "\\r";
    } else if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace

std::optional<SplitPattern> split_pattern_of(std::string_view regex, RegexDialect dialect) {
  const std::string wanted = with_escaped_newlines(regex);
  for (const KnownText& known : kTexts) {
    const bool is_read = known.readers == Readers::kAll || dialect == RegexDialect::kTiktoken;
    if (is_read && known.text == wanted) return known.pattern;
  }
  return std::nullopt;
}

std::string_view regex_of(SplitPattern pattern) {
  for (const KnownText& known : kTexts) {
    if (known.pattern == pattern) return known.text;
  }
  return {};
}

}  // namespace strata
