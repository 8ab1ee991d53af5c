// Whether token sources belong together and to a model, as far as they tell. A session asks before
// it takes memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "strata/data/token_source.h"

namespace strata {

/// The tokenizer that a model needs, as far as it is known.
struct ModelTokenizer {
  std::int64_t vocabulary = 0;  ///< ids that the model has rows for
  std::string folder{};         ///< where the weights came from; empty for a new model
  std::string named{};  ///< the tokenizer that the model is to have instead; empty: its folder's
};

/// Throws IoError if the source's vocabulary is larger than the model's, or if the model came with
/// a tokenizer of its own (see Tokenizer::file_in) and the source is neither from that nor from the
/// one that is named instead.
void require_tokenizer_of(const ModelTokenizer& model, const TokenSource& source);

/// Throws IoError, naming two of them, if sources that are trained on together say from which
/// tokenizer they are, or with how many ids, and do not agree.
void require_one_tokenizer(std::span<const TokenSource* const> sources);

/// Throws IoError if both sources say from which tokenizer they are, or with how many ids, and do
/// not agree.
void require_same_tokenizer(const TokenSource& training, const TokenSource& validation);

}  // namespace strata
