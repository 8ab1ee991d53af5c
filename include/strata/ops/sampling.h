// The operator that draws the next token of each sequence from its logits. Generation runs it after
// the head. It has no random state: the caller gives each row the uniform number that decides.
// Letters of shapes are those of strata/ops/embedding.h.
#pragma once

#include <cstdint>

#include "strata/base/tensor.h"
#include "strata/device/trace.h"

namespace strata {

/// How one token is drawn. Plain data that lies in memory of the device.
struct SamplingRow {
  double temperature = 1;       ///< 0: the most likely token, the first one of equals
  double top_p = 1;             ///< the likeliest tokens up to this probability together
  double min_p = 0;             ///< tokens at least so likely as this share of the likeliest one
  double repeat_penalty = 1;    ///< of tokens that were seen
  double uniform = 0;           ///< in [0, 1): where in the distribution the token is taken
  std::int32_t top_k = 0;       ///< so many tokens, the likeliest; 0: all
  std::int32_t seen_begin = 0;  ///< first of the tokens that were seen, in SampleTokens::seen
  std::int32_t seen_count = 0;  ///< how many they are, all different
  std::int32_t unused = 0;
};

/// For each row, in f64 and in this order, as transformers orders its processors and warpers:
/// logits of tokens that were seen are divided by the penalty if positive, else multiplied by it;
/// all are divided by the temperature; then remain those of the top_k largest (with equals of the
/// last), of these the likeliest ones before which less than top_p is gathered (of equals those
/// with the lower id), and of these the ones at least min_p times as likely as the first. The token
/// is the first one, by id, at which the remaining probabilities add up to more than `uniform`
/// times their sum. `logprob` is the natural logarithm of its probability by the logits as they
/// were. Where no largest logit exists (NaN, or all are -infinity) the token is -1.
struct SampleTokens {
  static constexpr std::string_view kName = "sample_tokens";
  ConstTensorView logits;  ///< [N, V] X; rows may be strided
  ConstTensorView rows;    ///< [N, sizeof(SamplingRow)] u8: SamplingRow of each
  ConstTensorView seen;    ///< [M] i32, each in [0, V); absent if no row has any
  TensorView token;        ///< [N] i32
  TensorView logprob;      ///< [N] A
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

}  // namespace strata
