// Gives the weights of a model rows for tokens that were added to its tokenizer. A run that begins
// with such a model reads its weights through this; the model's files stay as they are.
#pragma once

#include <cstdint>
#include <string_view>

#include "strata/model/safetensors.h"

namespace strata {

/// The tensors of a Hugging Face folder that have a row for each id; a tied model has no head.
inline constexpr std::string_view kEmbeddingName = "model.embed_tokens.weight";
inline constexpr std::string_view kHeadName = "lm_head.weight";

/// Lets embedding and head have `to` rows instead of `from`. Each new row is the mean of all rows
/// of its matrix, summed in f64 in their order, so that every rank finds the same. Reads both
/// matrices. Throws IoError that names the tensor if it has not `from` rows, cannot be read, or
/// holds a value that is not finite.
void resize_vocabulary(SafetensorsDirectory& weights, std::int64_t from, std::int64_t to);

}  // namespace strata
