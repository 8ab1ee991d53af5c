#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strata/device/arena.h"
#include "strata/model/config.h"
#include "strata/model/kept_activations.h"
#include "strata/model/unit_views.h"
#include "strata/ops/kernels.h"

namespace strata {

class CellRunner;
struct LlamaScratch;

/// Sizes that are fixed before the first step.
struct LlamaSizes {
  DType compute = DType::kF32;   ///< X: weights and activations
  std::int64_t row_tokens = 0;   ///< T
  std::int64_t cell_tokens = 0;  ///< N = B * T
  std::int64_t head_chunk = 0;   ///< tokens whose logits exist at once, 1..N
  bool add_dq = false;           ///< give attention's backward a dq_sum
  /// Every cell keeps this much, so what is kept up to here needs no scratch.
  KeepLevel kept_by_all = KeepLevel::kRecompute;
};

/// A matrix product of the model, by what it is for ("qkv forward").
struct LlamaMatmul {
  std::string name;
  MatmulShape shape;
};

/// What a sub-batch brings along, on the device.
struct CellBatch {
  ConstTensorView ids;        ///< [N] i32
  ConstTensorView targets;    ///< [N] i32
  ConstTensorView positions;  ///< [N] i32
  ConstTensorView order;      ///< [N] i32, see EmbeddingBackward
  AttentionSegments segments;
};

/// LLaMA as short lists of operators, one list per unit and direction. Owns the scratch memory that
/// the lists share (they all run on one lane, in order) and the RoPE tables; weights, gradients and
/// boundary activations belong to the caller.
class Llama {
 public:
  /// Takes scratch_bytes() from `device_arena`; fills the RoPE tables through `staging`, pinned
  /// memory of at least rope_bytes() that is free again when the constructor returns.
  Llama(const LlamaConfig& config, const LlamaSizes& sizes, Kernels& kernels, Arena& device_arena,
        std::span<std::byte> staging);
  ~Llama();

  /// What the constructor takes from the arena, entry by entry.
  static std::vector<LedgerEntry> scratch_ledger(const LlamaConfig& config,
                                                 const LlamaSizes& sizes);
  static std::size_t rope_bytes(const LlamaConfig& config, const LlamaSizes& sizes);
  /// Elements from one row of logits to the next.
  static std::int64_t logits_stride(const LlamaConfig& config);
  /// Lets kernels make ready what they compile or allocate per shape.
  static void prepare(Kernels& kernels, const LlamaConfig& config, const LlamaSizes& sizes);
  /// Every kind of product that the members below run.
  static std::vector<LlamaMatmul> matmuls(const LlamaConfig& config, const LlamaSizes& sizes);
  /// What forward can keep of a cell, in the order of levels.
  static std::vector<KeptTensor> kept_tensors(const LlamaConfig& config, const LlamaSizes& sizes);
  static std::int64_t default_head_chunk(const LlamaConfig& config, std::int64_t cell_tokens);

  void embedding_forward(Stream& compute, const EmbeddingWeights& w, const CellBatch& batch,
                         TensorView y, const Tag& tag);
  void embedding_backward(Stream& compute, const EmbeddingGradients& dw, const CellBatch& batch,
                          ConstTensorView dy, const Tag& tag);
  /// y = layer(x); x and y are [N, C] X and distinct. Fills `kept`.
  void layer_forward(Stream& compute, const LayerWeights& w, const CellBatch& batch,
                     ConstTensorView x, const KeptActivations& kept, TensorView y, const Tag& tag);
  /// d [N, C] X is the gradient of the layer's output and becomes that of its input. What forward
  /// did not keep is computed again from x, with the same bits; what it kept is used up.
  void layer_backward(Stream& compute, const LayerWeights& w, const LayerGradients& dw,
                      const CellBatch& batch, ConstTensorView x, const KeptActivations& kept,
                      TensorView d, const Tag& tag);
  /// Final norm, logits, loss and their backward, in chunks of head_chunk tokens.
  /// loss [N] A per token; d [N, C] X gradient of x, scaled by grad_scale [1] A.
  void head_forward_backward(Stream& compute, const HeadWeights& w, const HeadGradients& dw,
                             const CellBatch& batch, ConstTensorView grad_scale, ConstTensorView x,
                             TensorView d, TensorView loss, const Tag& tag);
  /// The loss alone, for validation.
  void head_forward(Stream& compute, const HeadWeights& w, const CellBatch& batch,
                    ConstTensorView x, TensorView loss, const Tag& tag);
  /// [head_chunk, V] X, strided, on the device: the logits of the last chunk of head_forward.
  [[nodiscard]] ConstTensorView last_logits() const;

 private:
  struct HeadChunk;
  [[nodiscard]] KeptActivations places(const KeptActivations& kept) const;
  void layer_activations(const CellRunner& run, const LayerWeights& w, const CellBatch& batch,
                         ConstTensorView x, const KeptActivations& there, const KeptActivations& a);
  HeadChunk head_chunk(const CellRunner& run, const HeadWeights& w, const CellBatch& batch,
                       std::int64_t begin, ConstTensorView grad_scale, ConstTensorView x,
                       TensorView loss);

  LlamaConfig config_;
  LlamaSizes sizes_;
  Kernels& kernels_;
  std::unique_ptr<LlamaScratch> scratch_;
};

}  // namespace strata
