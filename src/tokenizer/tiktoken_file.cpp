// Reads files of tiktoken line by line, and makes the parts of a tokenizer of one whose vocabulary
// is known.

#include "tokenizer/tiktoken_file.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include "strata/base/error.h"
#include "tokenizer/base64.h"
#include "tokenizer/tiktoken_encodings.h"

namespace strata {
namespace {

struct Line {
  std::string token;
  std::size_t rank;
};

std::optional<Line> read_line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const std::size_t space = line.find(' ');
  if (space == line.npos) return std::nullopt;
  std::optional<std::string> token = base64_bytes(line.substr(0, space));
  const std::string_view digits = line.substr(space + 1);
  std::uint32_t rank = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size();
  if (!token || token->empty() || !is_number) return std::nullopt;
  return Line{.token = std::move(*token), .rank = rank};
}

}  // namespace

bool is_tiktoken(std::string_view contents) {
  return read_line(contents.substr(0, contents.find('\n'))).has_value();
}

std::vector<std::string> tiktoken_ranks(std::string_view contents) {
  const auto lines = static_cast<std::size_t>(std::count(contents.begin(), contents.end(), '\n'));
  std::vector<std::string> tokens;
  tokens.reserve(lines + 1);
  std::size_t number = 0;
  while (!contents.empty()) {
    ++number;
    const std::size_t end = std::min(contents.find('\n'), contents.size());
    const std::string_view text = contents.substr(0, end);
    contents.remove_prefix(std::min(end + 1, contents.size()));
    if (text.empty() || text == "\r") continue;
    std::optional<Line> line = read_line(text);
    const std::string place = "line " + std::to_string(number) + ": ";
    if (!line) throw ConfigError(place + "a token in base64 and its rank are expected");
    if (line->rank > lines) throw ConfigError(place + "the rank is above the number of lines");
    if (tokens.size() <= line->rank) tokens.resize(line->rank + 1);
    if (!tokens[line->rank].empty()) throw ConfigError(place + "the rank is there twice");
    tokens[line->rank] = std::move(line->token);
  }
  for (std::size_t rank = 0; rank < tokens.size(); ++rank) {
    if (tokens[rank].empty()) throw ConfigError("has no token of rank " + std::to_string(rank));
  }
  return tokens;
}

TokenizerParts tiktoken_parts(std::string_view contents) {
  ByteVocabulary vocabulary{.tokens = tiktoken_ranks(contents)};
  if (!complete_tiktoken_encoding(contents, vocabulary)) {
    throw ConfigError(
        "has tokens and ranks of tiktoken, but neither the expression that cuts texts nor special "
        "tokens, and is none of the vocabularies of which strata knows them (Llama 3, Llama 4, "
        "Qwen, cl100k_base, o200k_base). Convert it to a tokenizer.json with transformers");
  }
  return byte_vocabulary_parts(vocabulary);
}

}  // namespace strata
