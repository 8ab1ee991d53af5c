// Compares the tokenizers of token sources and of a model. What is not known is not compared: hash
// and vocabulary are 0 for bare ids and synthetic tokens.

#include "strata/data/compatible.h"

#include <cstdint>
#include <optional>
#include <string>

#include "strata/base/error.h"
#include "strata/base/text.h"
#include "strata/data/byte_tokenizer.h"
#include "strata/tokenizer/tokenizer.h"

namespace strata {

namespace {

/// Returns the hash of a tokenizer, or nothing if strata does not read it: then nobody has made
/// token files with it here.
std::optional<std::uint64_t> hash_of(const std::string& tokenizer) {
  try {
    return Tokenizer::load(tokenizer)->hash();
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool are_of_different_tokenizers(const TokenSource& a, const TokenSource& b) {
  const auto differ = [](auto x, auto y) { return x != 0 && y != 0 && x != y; };
  return differ(a.tokenizer_hash(), b.tokenizer_hash()) || differ(a.vocabulary(), b.vocabulary());
}

std::string tokenizer_text(const TokenSource& source) {
  return format_count(source.vocabulary()) + " ids";
}

}  // namespace

void require_tokenizer_of(const ModelTokenizer& model, const TokenSource& source) {
  if (source.vocabulary() > model.vocabulary) {
    throw IoError(source.name() + ": is from a tokenizer with " +
                  format_count(source.vocabulary()) + " ids, but model.vocab_size is " +
                  format_count(model.vocabulary) +
                  ". Tokenize the text for this model; or set model.vocab_size to " +
                  std::to_string(source.vocabulary()) +
                  " if it is a new one, or if tokens were added to its tokenizer");
  }
  if (model.folder.empty() || source.tokenizer_hash() == 0) return;
  if (!model.named.empty() && hash_of(model.named) == source.tokenizer_hash()) return;
  const std::optional<std::string> own = Tokenizer::file_in(model.folder);
  if (!own) return;
  const std::string remedy = ", but the model's own is " + *own +
                             ". Tokenize the text with --tokenizer " + model.folder +
                             ", or give the ids of that one as a file of bare ids, with "
                             "data.dtype; if the file's tokenizer is that one with more tokens, "
                             "name it as model.tokenizer";
  if (source.tokenizer_hash() == ByteTokenizer::hash()) {
    throw IoError(source.name() + ": is from the byte tokenizer of `strata tokenize`" + remedy);
  }
  const std::optional<std::uint64_t> hash = hash_of(*own);
  if (hash && *hash != source.tokenizer_hash()) {
    throw IoError(source.name() + ": is from another tokenizer" + remedy);
  }
}

void require_one_tokenizer(std::span<const TokenSource* const> sources) {
  const TokenSource* with_hash = nullptr;  // the first that tells
  const TokenSource* with_vocabulary = nullptr;
  for (const TokenSource* source : sources) {
    for (const TokenSource* other : {with_hash, with_vocabulary}) {
      if (other == nullptr || !are_of_different_tokenizers(*other, *source)) continue;
      throw IoError(source->name() + ": is from another tokenizer (" + tokenizer_text(*source) +
                    ") than " + other->name() + " (" + tokenizer_text(*other) +
                    "), so their ids mean different text. Tokenize both in the same way");
    }
    if (with_hash == nullptr && source->tokenizer_hash() != 0) with_hash = source;
    if (with_vocabulary == nullptr && source->vocabulary() != 0) with_vocabulary = source;
  }
}

void require_same_tokenizer(const TokenSource& training, const TokenSource& validation) {
  if (!are_of_different_tokenizers(training, validation)) return;
  throw IoError(validation.name() + ": is from another tokenizer (" + tokenizer_text(validation) +
                ") than " + training.name() + " (" + tokenizer_text(training) +
                "), so it does not measure what is trained. Tokenize both in the same way");
}

}  // namespace strata
