// What is not known is not compared: hash and vocabulary are 0 for bare ids and synthetic tokens.

#include "strata/data/compatible.h"

#include <array>
#include <filesystem>
#include <string>
#include <system_error>

#include "strata/base/error.h"
#include "strata/base/text.h"
#include "strata/data/byte_tokenizer.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

/// Returns the file of a model's folder that holds its tokenizer, or nothing.
std::string tokenizer_file(const std::string& folder) {
  constexpr std::array kNames{"tokenizer.json", "tokenizer.model"};
  for (const char* name : kNames) {
    std::error_code error;
    const fs::path file = fs::path(folder) / name;
    if (fs::exists(file, error)) return file.string();
  }
  return {};
}

}  // namespace

void require_tokenizer_of(const ModelTokenizer& model, const TokenSource& source) {
  if (source.vocabulary() > model.vocabulary) {
    throw IoError(source.name() + ": is from a tokenizer with " +
                  format_count(source.vocabulary()) + " ids, but model.vocab_size is " +
                  format_count(model.vocabulary) +
                  ". Tokenize the text for this model, or set model.vocab_size for a new one");
  }
  if (model.folder.empty() || source.tokenizer_hash() != ByteTokenizer::hash()) return;
  const std::string own = tokenizer_file(model.folder);
  if (own.empty()) return;
  throw IoError(source.name() + ": is from the byte tokenizer of `strata tokenize`, but the " +
                "weights of model.path were trained with another, " + own +
                ". Give the ids of that one as a file of bare ids, with data.dtype");
}

void require_same_tokenizer(const TokenSource& training, const TokenSource& validation) {
  const auto differ = [](auto a, auto b) { return a != 0 && b != 0 && a != b; };
  if (!differ(training.tokenizer_hash(), validation.tokenizer_hash()) &&
      !differ(training.vocabulary(), validation.vocabulary())) {
    return;
  }
  throw IoError(validation.name() + ": is from another tokenizer (" +
                format_count(validation.vocabulary()) + " ids) than " + training.name() + " (" +
                format_count(training.vocabulary()) +
                " ids), so it does not measure what is trained. Tokenize both in the same way");
}

}  // namespace strata
