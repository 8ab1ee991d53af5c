// The optimizer's operators: the squared norm of a gradient, with and without a cast, and updates
// of parameters as exact sequences of operations, so that host and device give the same bits. The
// optimizer and the gradient store run them on flat runs of parameters, on the host lane or on the
// device. X and A are the dtypes of strata/ops/embedding.h.
#pragma once

#include "strata/base/tensor.h"
#include "strata/device/trace.h"
#include "strata/ops/moment_codes.h"

namespace strata {

/// partial[i] = sum of x^2 over elements [4096 i, 4096 (i+1)), each square and sum in f64 in index
/// order; the caller adds the partials in index order.
struct SquaredNorm {
  static constexpr std::string_view kName = "squared_norm";
  static constexpr std::int64_t kBlock = 4096;
  /// Returns how many partial sums a run of so many elements has.
  [[nodiscard]] static constexpr std::int64_t partials(std::int64_t elements) {
    return (elements + kBlock - 1) / kBlock;
  }
  ConstTensorView x;   ///< [n] f64, f32 or bf16, contiguous
  TensorView partial;  ///< [ceil(n / kBlock)] f64
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

/// y = x in the dtype of y, rounded as Cast rounds, and partial = what SquaredNorm gives for y: a
/// gradient on its way to the optimizer is read once for both. Both are contiguous. In place is
/// allowed for equal dtypes only. The partials of a range that begins at a multiple of kBlock are
/// those of the whole.
struct CastSquaredNorm {
  static constexpr std::string_view kName = "cast_squared_norm";
  static constexpr std::int64_t kBlock = SquaredNorm::kBlock;
  ConstTensorView x;   ///< [n] A: f64 or f32
  TensorView y;        ///< [n] f64, f32 or bf16
  TensorView partial;  ///< [ceil(n / kBlock)] f64
  void check() const;
  [[nodiscard]] Accesses accesses() const;
};

/// The numbers of one update, computed on the host in f64 and read by the kernel from memory,
/// because the clip factor depends on data. Momentum has no eps and no corrections. Plain data that
/// lives in pinned or device memory.
struct AdamWScalars {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double correction1 = 1;           ///< 1 - beta1^t
  double correction2 = 1;           ///< 1 - beta2^t
  double grad_factor = 1;           ///< clip factor, applied to the gradient first
  std::int64_t apply = 1;           ///< 0: leave everything as it is (a skipped step)
  std::uint64_t rounding_seed = 0;  ///< of moments: a function of the run's seed and the step
};

/// One AdamW update (Loshchilov and Hutter, 2019) of a run of parameters, element by element, in A
/// (f32 for bf16 and f32 weights), as this exact sequence of IEEE operations, so that every
/// implementation gives the same bits (fma where written, else each operation rounded):
///   g  = grad * grad_factor
///   m  = fma(beta1, m, (1 - beta1) * g)
///   v  = fma(beta2, v, ((1 - beta2) * g) * g)
///   u  = (m / correction1) / (sqrt(v / correction2) + eps)
///   w  = fma(-(lr * weight_decay), w, w)
///   w  = fma(-lr, u, w)
/// with every scalar (1 - beta and lr * weight_decay, too; lr is scalars->lr * lr_factor) computed
/// in f64 and rounded to A first.
/// bf16 weights with `low` are the high half of a split f32 master: bits(w) = (hi << 16) +
/// sign-extended lo modulo 2^32; after the update hi = (bits + 0x8000) >> 16, lo = int16(bits -
/// (hi << 16)).
/// bf16 moments are widened on reading and rounded stochastically on writing; w is updated from the
/// m and v before that. Element i takes 16 random bits for each, with e = rounding_begin + i, from
///   key = random_bits(rounding_seed, rounding_stream, e / 4096)
///   r   = mix32(low half of key + (e mod 4096) * 0x9e3779b9) ^ high half of key, modulo 2^32
/// so what is updated in parts (shards, chunks, here and there) has the bits of the whole.
/// m is stored as the upper 16 bits of bits(m) + (r mod 2^16), v as those of bits(v) + r / 2^16: a
/// number goes up in magnitude with the probability of the fraction that it loses. Infinities and
/// NaNs keep their upper 16 bits, NaNs become quiet. mix32 is the finaliser of MurmurHash3
/// (Appleby, 2011): x ^= x >> 16, x *= 0x85ebca6b, x ^= x >> 13, x *= 0xc2b2ae35, x ^= x >> 16.
/// bf16 weights without `low` are widened on reading and rounded like bf16 moments on writing, by
/// r mod 2^16 of random bits of their own, those of the stream rounding_stream ^ kWeightStream.
/// 8-bit moments are codes with scales (strata/ops/moment_codes.h); they are decoded on reading and
/// encoded on writing, m by the random bits r mod 2^16 and v by r / 2^16. Blocks are counted from
/// element 0, and rounding_begin is a multiple of kMomentBlock.
/// `nonfinite[0]` is set to 1 if any new w is not finite, checked before it is split or rounded, or
/// if a block of codes is not; else untouched.
struct AdamW {
  static constexpr std::string_view kName = "adamw";
  static constexpr std::uint64_t kWeightStream = 0x77656967687473;  // "weights"
  TensorView weight;                      ///< [n] bf16 (high half, or all), f32 or f64
  TensorView low;                         ///< [n] i16, of a bf16 weight, or absent
  TensorView m;                           ///< [n] A; bf16 or kMomentCode if A is f32
  TensorView v;                           ///< [n] dtype of m
  TensorView scale{};                     ///< [ceil(n / kMomentBlock), kMomentScales] u8; present
                                          ///< exactly if m has codes
  ConstTensorView grad;                   ///< [n] bf16, f32 or f64
  const AdamWScalars* scalars = nullptr;  ///< read when the operator runs
  double lr_factor = 1;                   ///< of these parameters
  double weight_decay = 0;
  std::uint64_t rounding_stream = 0;  ///< which run of parameters this is part of, for rounding
  std::int64_t rounding_begin = 0;    ///< place of element 0 in that run, not negative
  TensorView nonfinite;               ///< [1] i32
  bool rare = false;                  ///< `scalars` say in most steps that nothing is applied
  void check() const;
  [[nodiscard]] Accesses accesses() const;
  [[nodiscard]] Cost cost() const;
};

/// What an optimizer with one moment makes of a gradient.
enum class MomentumFormula : std::uint8_t {
  kLion,      ///< Chen et al., 2023
  kSgd,       ///< with momentum, as PyTorch's (without dampening)
  kNesterov,  ///< Sutskever et al., 2013, as PyTorch's
};

/// One update of a run of parameters by an optimizer with one moment. The masters, A, the rounding
/// of scalars and of bf16 moments, and `nonfinite` are those of AdamW; this is the sequence:
///   g = grad * grad_factor
///   kLion      u = sign(fma(beta1, m, (1 - beta1) * g)), m = fma(beta2, m, (1 - beta2) * g)
///   kSgd       m = fma(beta1, m, g), u = m
///   kNesterov  m = fma(beta1, m, g), u = fma(beta1, m, g)
///   w = fma(-(lr * weight_decay), w, w)
///   w = fma(-lr, u, w)
/// sign(x) is 1 above 0, -1 below it, and x itself if x is 0 or NaN. With bf16 moments u is that of
/// the m before it is rounded, which takes r mod 2^16.
struct Momentum {
  static constexpr std::string_view kName = "momentum";
  MomentumFormula formula = MomentumFormula::kLion;
  TensorView weight;                      ///< [n] bf16 (high half, or all), f32 or f64
  TensorView low;                         ///< [n] i16, of a bf16 weight, or absent
  TensorView m;                           ///< [n] A; bf16 if A is f32
  ConstTensorView grad;                   ///< [n] bf16, f32 or f64
  const AdamWScalars* scalars = nullptr;  ///< read when the operator runs
  double lr_factor = 1;                   ///< of these parameters
  double weight_decay = 0;
  std::uint64_t rounding_stream = 0;  ///< as AdamW's
  std::int64_t rounding_begin = 0;
  TensorView nonfinite;  ///< [1] i32
  bool rare = false;     ///< `scalars` say in most steps that nothing is applied
  void check() const;
  [[nodiscard]] Accesses accesses() const;
  [[nodiscard]] Cost cost() const { return {.kind = rare ? CostKind::kRare : CostKind::kMemory}; }
};

/// Returns whether operators of this name update parameters.
[[nodiscard]] constexpr bool is_update(std::string_view name) {
  return name == AdamW::kName || name == Momentum::kName;
}

}  // namespace strata
