// One list of cases and one naive f64 reference per operator, for every backend. check_x() draws
// inputs that are exact in the compute dtype, runs the operator, and requires that every output is
// within the rounding error that its arithmetic can make, and that nothing else was written. It
// throws CheckFailure if not, and else returns what the operator wrote, so that runs can also be
// compared bit by bit.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "strata/op_checks/op_runner.h"
#include "strata/ops/kernels.h"

namespace strata {

/// The number of tokens, the width, gaps between rows (elements beyond the width) and whether
/// outputs go where inputs were, as far as the operator allows it.
struct RowsCase {
  std::int64_t tokens = 1;
  std::int64_t width = 1;
  std::int64_t gap = 0;
  bool in_place = false;
};
/// Odd sizes, size 1, no tokens, gaps, in place.
[[nodiscard]] std::vector<RowsCase> rows_cases();

Outputs check_residual_add(OpRunner& runner, DType dtype, const RowsCase& c);
/// The sum, and the gradient of the bias, for which x is the gradient of the sum.
Outputs check_bias(OpRunner& runner, DType dtype, const RowsCase& c);
/// Capped values and gradients of those that are far below the cap, near it and above it.
Outputs check_soft_cap(OpRunner& runner, DType dtype, const RowsCase& c);
/// Values that are dropped or kept, with and without what is added; the mask by its formula.
Outputs check_dropout(OpRunner& runner, DType dtype, const RowsCase& c, bool adds);
Outputs check_swiglu(OpRunner& runner, DType dtype, const RowsCase& c,
                     Activation activation = Activation::kSilu);
inline constexpr std::array kAllActivations{Activation::kSilu, Activation::kGeluTanh,
                                            Activation::kGelu};
Outputs check_rmsnorm_forward(OpRunner& runner, DType dtype, const RowsCase& c, bool residual,
                              double offset = 0);
Outputs check_rmsnorm_backward(OpRunner& runner, DType dtype, const RowsCase& c, bool residual,
                               double offset = 0);
/// `width` is the vocabulary. Some targets are ignored, the first and last token id occur.
Outputs check_cross_entropy(OpRunner& runner, DType dtype, const RowsCase& c, bool gradient);
/// Requires of a scale for each row the bits that each scale gives alone.
Outputs check_scaled_cross_entropy(OpRunner& runner, DType dtype, const RowsCase& c);
/// The gradient alone, in f32 or f64, to a few units in the last place of each probability; rows
/// of logits that are close together and apart, small and large.
Outputs check_fine_cross_entropy(OpRunner& runner, DType dtype, const RowsCase& c);
/// `width` is C; the vocabulary is small, so ids repeat.
Outputs check_embedding(OpRunner& runner, DType dtype, const RowsCase& c, double scale = 1);

/// Rows as int8 and back: normal rows, zeros, subnormal and non-finite ones. Returns the levels,
/// the scales and what came back.
Outputs check_quantize(OpRunner& runner, DType dtype, const RowsCase& c);
/// Rows and columns as e4m3: normal ones of all sizes, zeros, subnormal and non-finite numbers,
/// ties, and the ends of a scale's range, and rows as they come back; bitwise.
Outputs check_quantize_fp8(OpRunner& runner, DType dtype, const RowsCase& c);
/// Weights of 4 bits, of `blocks` blocks with any codes, scales and tables; bitwise.
Outputs check_dequantize_nf4(OpRunner& runner, DType dtype, std::int64_t blocks);
/// Codes of such rows, transposed; bitwise. `with_nan` makes a scale NaN.
Outputs check_transpose_fp8(OpRunner& runner, const RowsCase& c, bool with_nan);
/// What rounding such rows, with numbers far below the largest of their row, has lost: counts of
/// two matrices that add up, of which the second has codes that are transposed; exact.
Outputs check_count_fp8(OpRunner& runner, DType dtype, const RowsCase& c);
/// The same rows through operators that write y8: it has the bits of y as e4m3, and y, where
/// `with_y` asks for it, those that it has without y8. With y the norm also has a residual.
Outputs check_rmsnorm_fp8(OpRunner& runner, DType dtype, const RowsCase& c, bool with_y);
Outputs check_swiglu_fp8(OpRunner& runner, DType dtype, const RowsCase& c, bool with_y);
/// The gradients dx and d_gate_up as e4m3, likewise.
Outputs check_rmsnorm_backward_fp8(OpRunner& runner, DType dtype, const RowsCase& c, bool residual);
Outputs check_swiglu_backward_fp8(OpRunner& runner, DType dtype, const RowsCase& c);

struct RopeCase {
  std::int64_t tokens, heads, head_dim, gap;
};
[[nodiscard]] std::vector<RopeCase> rope_cases();
/// Which part of heads is rotated, and how.
struct RopeForm {
  std::int64_t multiple = 1;  ///< of what is rotated: the elements of a head
  RopePairs pairs = RopePairs::kHalves;
};
inline constexpr RopeForm kRopeForms[] = {{1, RopePairs::kHalves},
                                          {2, RopePairs::kHalves},
                                          {1, RopePairs::kNeighbours},
                                          {2, RopePairs::kNeighbours}};
/// Heads have `head_dim` elements that are rotated, and others as `form` says.
Outputs check_rope(OpRunner& runner, DType dtype, const RopeCase& c, const RopeForm& form);
/// Norms of heads, forward and backward.
Outputs check_head_norm(OpRunner& runner, DType dtype, const RopeCase& c, bool in_place,
                        double offset = 0);
/// Norms of heads that are then turned: by the formulas, and with the bits of the two operators.
Outputs check_turned_head_norm(OpRunner& runner, DType dtype, const RopeCase& c, bool in_place);

/// Rows go to places apart from each other in a cache with other gaps.
Outputs check_append_kv(OpRunner& runner, DType dtype, const RopeCase& c);
/// Requires the bits of the parts. `heads` are those of queries; there are half as many of keys.
Outputs check_fused_append(OpRunner& runner, DType dtype, const RopeCase& c);
/// AppendInt8Kv as QuantizeRows has it, to every second row of a cache, and DequantizeKv of two
/// segments of what came of it; both bitwise.
Outputs check_int8_kv(OpRunner& runner, DType dtype, const RopeCase& c);
/// `width` is the vocabulary. Rows differ in how they draw.
Outputs check_sample_tokens(OpRunner& runner, DType dtype, const RowsCase& c);

/// Pairs with answers of few and of many tokens, by formulas and differences. `dtype` is X.
Outputs check_preference(OpRunner& runner, DType dtype, const PreferenceRule& rule);
/// One rule of each kind.
inline constexpr PreferenceRule kPreferenceRules[] = {
    {.objective = Preference::kDpo, .beta = 0.25, .label_smoothing = 0.125},
    {.objective = Preference::kIpo, .beta = 0.5},
    {.objective = Preference::kSimpo, .beta = 2, .gamma = 1},
    {.objective = Preference::kOrpo, .beta = 0.25}};

/// Contiguous runs of n elements. `dtype` of accumulate is f32 or f64.
[[nodiscard]] std::vector<std::int64_t> flat_sizes();
Outputs check_accumulate(OpRunner& runner, DType dtype, std::int64_t n);
Outputs check_cast(OpRunner& runner, DType from, DType to, std::int64_t n);
Outputs check_copy(OpRunner& runner, std::int64_t n);  ///< a Cast of i32
Outputs check_fill(OpRunner& runner, DType dtype, std::int64_t n);
Outputs check_squared_norm(OpRunner& runner, DType dtype, std::int64_t n);
Outputs check_cast_squared_norm(OpRunner& runner, DType from, DType to, std::int64_t n);
/// Both norms of zeros, subnormal numbers, the largest ones, infinities and NaNs of `dtype`.
Outputs check_squared_norm_extremes(OpRunner& runner, DType dtype);

struct MatmulCase {
  std::int64_t m, n, k;
  std::int64_t gap = 0;
  double alpha = 1;
  /// Where Matmul allows one: for kNT that overwrites an output of the compute dtype.
  bool bias = false;
};
[[nodiscard]] std::vector<MatmulCase> matmul_cases();
/// `out` is the dtype of the output. To `intermediate` the backend may round a product before it
/// adds a bias or an `out` of the compute dtype.
Outputs check_matmul(OpRunner& runner, DType dtype, DType out, MatmulLayout layout,
                     MatmulUpdate update, const MatmulCase& c, bool batch_invariant = false,
                     DType intermediate = DType::kF64);

/// N and K are multiples of 16, and so are gaps.
[[nodiscard]] std::vector<MatmulCase> fp8_matmul_cases();
/// A product of codes, whose rows have scales of all sizes, against that of the rounded numbers. An
/// `exact` backend sums in A; of others an RMS error of 0.2 % is required.
Outputs check_fp8_matmul(OpRunner& runner, DType out, MatmulUpdate update, const MatmulCase& c,
                         bool exact);
/// A product of rows as e4m3 against that of the bf16 numbers that were rounded, which are normal,
/// with `decades` times powers of ten from -3 to 3: each row is within 4.5 % of its norm.
void check_fp8_product_error(OpRunner& runner, bool decades);

/// What a fused linear layer has before and after its product.
enum class FusedBefore : std::uint8_t { kNothing, kNorm, kResidualNorm };
enum class FusedAfter : std::uint8_t { kNothing, kGate, kResidual };
inline constexpr std::array kAllBefore{FusedBefore::kNothing, FusedBefore::kNorm,
                                       FusedBefore::kResidualNorm};
inline constexpr std::array kAllAfter{FusedAfter::kNothing, FusedAfter::kGate,
                                      FusedAfter::kResidual};
struct FusedCase {
  std::int64_t m, n, k;
  std::int64_t gap = 0;
  FusedBefore before = FusedBefore::kNothing;
  FusedAfter after = FusedAfter::kNothing;
  double alpha = 1;   ///< of the product
  double offset = 0;  ///< of the norm's weights
  Activation activation = Activation::kSilu;
};
[[nodiscard]] std::vector<FusedCase> fused_cases();
/// Also requires the bits of the parts, run one after the other.
Outputs check_fused_linear(OpRunner& runner, DType dtype, const FusedCase& c);

/// q_begin, k_begin, q_length, k_length, q_offset.
using SegmentEntry = std::array<std::int32_t, 5>;
struct AttentionCase {
  std::string name;
  std::int64_t queries, keys, heads, kv_heads, head_dim;
  std::vector<SegmentEntry> segments;
  std::int64_t uniform_length = 0;
  bool packed =
      false;  ///< q, k and v are columns of one [N, (H + 2K) D] tensor, and so are dq, dk, dv
  bool turned = false;     ///< the backward has a rotation
  std::int64_t parts = 0;  ///< of AttentionForward, if there are any
  std::int64_t window = 0;
  double score_cap = 0;
};
/// The head dims of cases: one that plain arithmetic computes, and those of kernels on tensor
/// cores. The cpu has one kernel for all: a head that its tasks have whole, and one that they cut.
using HeadDims = std::vector<std::int64_t>;
inline HeadDims cpu_head_dims() { return {12, 128}; }
inline HeadDims cuda_head_dims() { return {12, 64, 128, 256}; }
[[nodiscard]] std::vector<AttentionCase> attention_cases(
    const HeadDims& head_dims = cpu_head_dims());
/// Single queries over a cache, with keys in parts: forward alone.
[[nodiscard]] std::vector<AttentionCase> decode_cases(const HeadDims& head_dims = cpu_head_dims());
/// Rows of `length` tokens each, causal.
[[nodiscard]] AttentionCase causal_case(std::int64_t rows, std::int64_t length, std::int64_t heads,
                                        std::int64_t kv_heads, std::int64_t head_dim);
/// `intermediate` is the dtype to which the backend rounds P and dS before it multiplies with them:
/// the accumulator on the cpu backend, bf16 where tensor cores are used.
Outputs check_attention_forward(OpRunner& runner, DType dtype, const AttentionCase& c,
                                DType intermediate);
/// Single queries over a cache to which each adds the last key that it sees, and no other query
/// sees that one.
[[nodiscard]] std::vector<AttentionCase> fused_attend_cases(
    const HeadDims& head_dims = cpu_head_dims());
/// FusedAttend on such a case, against its parts run apart: the same bits.
Outputs check_fused_attend(OpRunner& runner, DType dtype, const AttentionCase& c);
/// AttendInt8Kv on such a case, whose segments are queries: levels and scales of all sizes, those
/// of rows of zeros included. `intermediate` as in forward.
Outputs check_attend_int8_kv(OpRunner& runner, DType dtype, const AttentionCase& c,
                             DType intermediate);
/// `intermediate` as in forward. `unturned` is the dtype to which the backend rounds dq and dk
/// before it turns them back: the accumulator, or the compute dtype if it does so in place. With
/// `adds_dq` the operator gets AttentionBackward::dq_sum.
struct AttentionRounding {
  DType intermediate, unturned;
};
Outputs check_attention_backward(OpRunner& runner, DType dtype, const AttentionCase& c,
                                 const AttentionRounding& rounding, bool adds_dq = false);

/// Cases of updates.
struct AdamWCase {
  DType weight, moments, grad;
  std::int64_t elements;
  std::int64_t rounding_begin = 0;
  bool split = true;  ///< bf16 weights have low halves
};
/// Several AdamW steps over ordinary, denormal, huge and non-finite numbers, bitwise equal to the
/// sequence of strata/ops/optimizer.h written with std::fma, and to what codes of moments mean.
Outputs check_adamw(OpRunner& runner, const AdamWCase& c);
/// The same for an optimizer with one moment.
Outputs check_momentum(OpRunner& runner, MomentumFormula formula, const AdamWCase& c);

}  // namespace strata
