// A model forward alone, for tokens that come after others whose keys and values are kept: the same
// operators as in training's forward, with a cache between the projection and attention. A sweep
// calls it unit by unit with views that the stores lease to it. Lists are submitted to the compute
// lane, and nobody waits for them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "strata/device/allocator.h"
#include "strata/model/kv_views.h"
#include "strata/model/llama_memory.h"
#include "strata/model/unit_views.h"
#include "strata/ops/kernels.h"
#include "strata/ops/sampling.h"

namespace strata {

class LayerRunner;

/// The sizes and dtype of forward, fixed before the first sweep.
struct ForwardSizes {
  DType compute = DType::kF32;   ///< X, the dtype of weights and activations
  std::int64_t positions = 0;    ///< P: a sequence is no longer
  std::int64_t cell_tokens = 0;  ///< N at most: tokens that go through a layer at once
  std::int64_t head_rows = 0;    ///< tokens whose logits exist at once
  /// Tokens past their prompts that go through a layer at once, at most: there is scratch to attend
  /// to parts of their keys side by side. 0: none, they are treated as those of prompts.
  std::int64_t singles = 0;
  /// R: rows of a group whose keys and values are int8: there is scratch in which tokens of prompts
  /// find them as X. 0: all are X.
  std::int64_t int8_rows = 0;
};

/// Tokens that go through a layer together, on the device. They may be of several sequences: parts
/// of prompts, single tokens, or both.
struct ForwardCell {
  ConstTensorView positions;  ///< [N] i32
  ConstTensorView rows;       ///< [N] i32: where their keys and values go
  /// [all segments, 5] i32, see AttentionSegments: of each piece, first of the singles and then of
  /// other tokens. Queries count from the first of either, keys by row.
  ConstTensorView segments;
  std::span<const KvPiece> pieces;  ///< all tokens, in order
  bool projected_is_read = false;   ///< projected() must give what layer() has computed
};

/// The residual stream of a cell, in place. Where a cell has many rows a layer leaves what it adds
/// to x apart, since the norm of the next one reads both anyway: that saves a pass over x.
struct ResidualStream {
  TensorView x;      ///< [N, C] X
  TensorView added;  ///< [N, C] X: what the layer before left to be added to x, or absent
  TensorView adds;   ///< [N, C] X: where this layer leaves the same, or absent: it adds it itself
};

/// Tokens that are drawn after some of the tokens of a sweep, on the device.
struct SampledTokens {
  ConstTensorView after;  ///< [S] i32: tokens of the sweep
  ConstTensorView rows;   ///< [S, sizeof(SamplingRow)] u8
  ConstTensorView seen;   ///< [M] i32, or absent
  TensorView token;       ///< [S] i32
  TensorView logprob;     ///< [S] A
};

/// Owns the temporaries and the RoPE tables. Weights, caches and activations belong to the caller,
/// who keeps them until the submitted work is done. The members that submit throw as Kernels::run
/// does.
class LlamaForward {
 public:
  /// This is what it takes: temporaries on the device, and pinned memory through which the tables
  /// go there.
  struct Memory {
    /// Takes the tables first, then the temporaries in the order of the members.
    Memory(const ModelSpec& spec, const ForwardSizes& sizes, Allocator& memory);

    TensorView n;        ///< [N, C] X, the input of attention or MLP, normalised
    TensorView qkv;      ///< [N, (H + 2 K) * D] X, q and k rotated
    TensorView o;        ///< [N, H * D] X, what attention returns
    TensorView x_mid;    ///< [few, C] X, the residual stream between attention and MLP
    TensorView gate_up;  ///< [N, 2 F] X
    TensorView act;      ///< [N, F] X
    TensorView rstd;     ///< [N] A
    TensorView lse;      ///< [H, N] A
    TensorView parts;    ///< [singles, parts, H * (D + 2)] A, see AttentionForward, or absent
    TensorView k, v;     ///< [R, K, D] X, what int8 stands for, or absent
    AdapterScratch adapters;
    TensorView head_x;     ///< [head_rows, C] X
    TensorView head_n;     ///< [head_rows, C] X
    TensorView head_rstd;  ///< [head_rows] A
    TensorView logits;     ///< [head_rows, V] X, strided
    RoundedOperands rounded;
    RopeTables rope;
  };

  /// Makes ready what a backend wants to know of products before memory is taken
  /// (Kernels::prepare).
  static void prepare(const ModelSpec& spec, const ForwardSizes& sizes, Kernels& kernels);

  /// Takes the memory and fills the tables, for which it waits for the device. `kernels` and the
  /// arenas outlive the model. Throws OutOfMemory.
  LlamaForward(const ModelSpec& spec, const ForwardSizes& sizes, Kernels& kernels, Arenas& arenas);

  /// x [T, C] X becomes the rows of the table that `ids` [T] i32 name.
  void embedding(Stream& compute, const EmbeddingWeights& w, const ConstTensorView& ids,
                 const TensorView& x, const Tag& tag);
  /// Returns whether a layer may leave what it adds to x apart, for a cell of so many tokens.
  [[nodiscard]] static bool may_add_later(std::int64_t tokens);
  /// x = layer(x) in place, for the tokens of a cell, whose keys and values are added to `kv`
  /// first: what before_attention() does, attention and after_attention().
  void layer(Stream& compute, int layer, const LayerWeights& w, const ForwardCell& cell,
             const KvViews& kv, const ResidualStream& x, const Tag& tag);
  /// Computes queries, keys and values of the tokens of a cell, turned by position, and returns
  /// them [N, (H + 2 K) * D] X on the device. Good until the next cell.
  TensorView before_attention(Stream& compute, int layer, const LayerWeights& w,
                              const ForwardCell& cell, const ResidualStream& x, const Tag& tag);
  /// Returns what before_attention() returned last, or layer() computed in its place for a cell
  /// whose `projected_is_read` says so.
  [[nodiscard]] ConstTensorView projected(std::int64_t tokens) const {
    return memory_.qkv.slice_rows(0, tokens);
  }
  /// x = the layer's output, in place, where attention gave o [N, H * D] X.
  void after_attention(Stream& compute, int layer, const LayerWeights& w, const ConstTensorView& o,
                       const ResidualStream& x, const Tag& tag);
  /// Draws tokens by the logits of rows of x [T, C] X, head_rows at a time.
  void sample(Stream& compute, const HeadWeights& w, const ConstTensorView& x,
              const SampledTokens& sampled, const Tag& tag);
  /// Computes the negative logarithm of the probability of each of `targets` [S] i32 after the
  /// token of `after` [S] i32 into `loss` [S] A; `lse` [S] A is scratch.
  void score(Stream& compute, const HeadWeights& w, const ConstTensorView& x,
             const ConstTensorView& after, const ConstTensorView& targets, const TensorView& loss,
             const TensorView& lse, const Tag& tag);
  /// Returns [head_rows, V] X, strided, on the device: the logits that were computed last.
  [[nodiscard]] ConstTensorView last_logits() const { return memory_.logits; }

 private:
  [[nodiscard]] LayerRunner layer_runner(Stream& compute, int layer, const LayerWeights& w,
                                         const Tag& tag) const;
  /// Returns queries, keys and values of x, normalised if the layer does that, and not turned.
  TensorView project(const LayerRunner& run, const ResidualStream& x);
  /// Returns what turns the queries and keys of `qkv` by their positions.
  [[nodiscard]] std::optional<Rope> turn(const AttentionSpec& spec,
                                         const ConstTensorView& positions,
                                         const TensorView& qkv) const;
  /// A piece of a cell, with what a layer computes of it.
  struct Attending {
    const KvPiece& piece;
    ConstTensorView segments;  ///< of the piece
    TensorView qkv, o;         ///< of its tokens
  };
  /// Turns and adds the keys and values of a piece, and has its tokens attend.
  void attend(const LayerRunner& run, const ForwardCell& cell, const KvPiece& piece,
              const KvViews& kv, const TensorView& qkv);
  /// Returns the single tokens of a piece, which are the first.
  [[nodiscard]] SingleTokens singles_of(const AttentionSpec& spec, const Attending& of) const;
  /// Has the tokens of prompts attend, whose rows and segments are the last ones of the piece.
  void attend_prompts(const LayerRunner& run, const Attending& of, const KvViews& kv);
  /// Does what after_attention() does.
  void finish(const LayerRunner& run, const ConstTensorView& o, const ResidualStream& x);
  /// Returns the logits of these rows of x.
  TensorView head(Stream& compute, const HeadWeights& w, const ConstTensorView& x,
                  const ConstTensorView& after, const Tag& tag);

  ModelSpec spec_;
  ForwardSizes sizes_;
  Kernels& kernels_;
  Memory memory_;
};

}  // namespace strata
