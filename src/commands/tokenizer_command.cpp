// `tokenizer inspect`, `encode` and `decode` show what a tokenizer's file holds and does. Ids stand
// on one line, so that one command's output is the other's input.

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/text.h"
#include "strata/base/utf8.h"
#include "strata/commands/commands.h"
#include "strata/tokenizer/tokenizer.h"

namespace strata {
namespace {

constexpr std::size_t kMostTextBytes = std::size_t{4} << 30;

std::string read_input(const std::string& input) {
  if (input != "-") return read_text_file(input, kMostTextBytes);
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

std::vector<std::int32_t> parse_ids(const std::string& text, const std::string& input) {
  std::vector<std::int32_t> ids;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    if (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t') {
      ++at;
      continue;
    }
    std::int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || id < 0) {
      throw ConfigError(input + ": ids are whole numbers with spaces between, not " +
                        printable_name(shortened({at, static_cast<std::size_t>(end - at)})));
    }
    ids.push_back(id);
    at = next;
  }
  return ids;
}

/// Throws ConfigError for the first id that is no token's.
void require_tokens(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids,
                    const std::string& input) {
  const auto unknown =
      std::ranges::find_if(ids, [&](std::int32_t id) { return tokenizer.token(id).empty(); });
  if (unknown == ids.end()) return;
  throw ConfigError(input + ": id " + std::to_string(*unknown) + ", the " +
                    format_count(unknown - ids.begin() + 1) + ". of them, is no token of the " +
                    "vocabulary, which has " + format_count(tokenizer.vocabulary()) +
                    " ids; name the tokenizer that the ids were made by");
}

}  // namespace

int tokenizer_inspect_command(const TokenizerOptions& options) {
  const auto tokenizer = Tokenizer::load(options.tokenizer);
  std::cout << "vocabulary " << format_count(tokenizer->vocabulary()) << "\nhash " << std::hex
            << tokenizer->hash() << std::dec << '\n';
  return 0;
}

int tokenizer_encode_command(const TokenizerOptions& options) {
  const auto tokenizer = Tokenizer::load(options.tokenizer);
  const std::string text = read_input(options.input);
  if (valid_utf8_bytes(text) != text.size()) {
    throw IoError(options.input + ": is not valid UTF-8; convert it, as with iconv");
  }
  EncodeCache cache;
  std::vector<std::int32_t> ids;
  tokenizer->encode(text,
                    {.parse_special = options.parse_special, .add_special = options.add_special},
                    cache, ids);
  std::string line;
  for (const std::int32_t id : ids) {
    if (!line.empty()) line += ' ';
    line += std::to_string(id);
  }
  std::cout << line << '\n';
  return 0;
}

int tokenizer_decode_command(const TokenizerOptions& options) {
  const auto tokenizer = Tokenizer::load(options.tokenizer);
  const auto ids = parse_ids(read_input(options.input), options.input);
  require_tokens(*tokenizer, ids, options.input);
  std::cout << printable_for(STDOUT_FILENO,
                             tokenizer->decode(ids, {.skip_special = options.skip_special}));
  return 0;
}

}  // namespace strata
