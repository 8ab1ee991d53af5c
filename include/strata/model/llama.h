// A model as short lists of operators: for each kind of unit (embedding, layer, head) one list
// forward and one backward. The schedule calls them cell by cell with views of weights and
// gradients that the stores lease to it; planning asks the static functions for the bytes and
// products of the same lists. Lists are submitted to the compute lane, and nobody waits for them.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/model/llama_memory.h"
#include "strata/model/unit_views.h"
#include "strata/ops/kernels.h"

namespace strata {

class CellRunner;
class LayerRunner;

/// A matrix product that the model runs, with what it is for ("qkv forward").
struct LlamaMatmul {
  std::string name;
  MatmulShape shape;
};

/// Which random numbers the tokens of a sub-batch draw in a step.
struct TokenDraws {
  std::uint64_t seed = 0;  ///< a function of the run's seed and the step
  std::int64_t first = 0;  ///< place of the first token among all that the step has
};

/// What the tokens of one sub-batch bring along, on the device. All units read the same.
struct CellBatch {
  ConstTensorView ids;        ///< [N] i32
  ConstTensorView targets;    ///< [N] i32
  ConstTensorView positions;  ///< [N] i32
  ConstTensorView order;      ///< [N] i32, see EmbeddingBackward
  AttentionSegments segments;
  ConstTensorView pairs{};  ///< as PreferenceLoss has them; absent where documents are no pairs
  /// as PreferenceLoss has them; absent unless a reference was computed before
  ConstTensorView reference_logs{};
  std::optional<TokenDraws> draws{};  ///< absent where nothing is trained: nothing is dropped
};

/// What the head makes of the pairs of a cell, and by which reference.
struct PairOutputs {
  ConstTensorView
      reference;       ///< [N] A, losses of tokens by the reference; absent if none computes now
  TensorView figures;  ///< [N / 4, 4] A
};

/// Owns the temporaries and the RoPE tables, which all lists share, since their operators run on
/// one lane in order. Weights, gradients and activations belong to the caller, who keeps them until
/// the submitted work is done. The members that submit throw as Kernels::run does.
class Llama {
 public:
  /// This is what it takes of a run's memory.
  struct Memory {
    Memory(const ModelSpec& spec, const LlamaSizes& sizes, Allocator& memory)
        : scratch(spec, sizes, memory), rope(rope_tables(spec, sizes, memory)) {}
    /// Takes the tables alone, which come last.
    static RopeTables rope_tables(const ModelSpec& spec, const LlamaSizes& sizes,
                                  Allocator& memory) {
      return {spec, sizes.row_tokens, accumulator_of(sizes.compute), memory};
    }

    LlamaScratch scratch;
    RopeTables rope;
  };

  /// Takes its memory and fills the RoPE tables, for which it waits for the device. `kernels` and
  /// the arenas outlive the model. Throws OutOfMemory.
  Llama(const ModelSpec& spec, const LlamaSizes& sizes, Kernels& kernels, Arenas& arenas);

  /// Returns the elements from one row of so many logits to the next.
  static std::int64_t logits_stride(std::int64_t vocabulary);
  /// Lets `kernels` compile and allocate what they need for the shapes of attention, so that no
  /// step does. Blocks; throws as Kernels::prepare does.
  static void prepare(Kernels& kernels, const ModelSpec& spec, const LlamaSizes& sizes);
  /// Returns the matrix products that the members below run, one for each purpose and shape.
  static std::vector<LlamaMatmul> matmuls(const ModelSpec& spec, const LlamaSizes& sizes);
  /// Returns the tensors that forward can keep of a cell, in the order of KeepLevel.
  static std::vector<KeptTensor> kept_tensors(const ModelSpec& spec, const LlamaSizes& sizes);
  /// Returns the head_chunk of a run whose config names none.
  static std::int64_t default_head_chunk(std::int64_t vocabulary, std::int64_t cell_tokens);

  /// y [N, C] X becomes the rows of the table that the tokens name.
  void embedding_forward(Stream& compute, const EmbeddingWeights& w, const CellBatch& batch,
                         TensorView y, const Tag& tag);
  /// Adds dy [N, C] X to the gradient of these rows.
  void embedding_backward(Stream& compute, const EmbeddingGradients& dw, const CellBatch& batch,
                          ConstTensorView dy, const Tag& tag);
  /// Adds what rounding to e4m3 loses in layers that are submitted from now on to these counts,
  /// [fp8_count_rows(L), CountFp8::kCounts] f64 on the device, or to none if they are absent. Bits
  /// are the same.
  void count_fp8(const TensorView& counts) { fp8_counts_ = counts; }
  /// Comes before layer_forward of the first cell of a visit of the layer: rounds the weights whose
  /// products multiply codes.
  void begin_layer_forward(Stream& compute, int layer, const LayerWeights& w, const Tag& tag);
  /// The same for layer_backward.
  void begin_layer_backward(Stream& compute, int layer, const LayerWeights& w,
                            const LayerGradients& dw, const Tag& tag);
  /// y = layer(x), where x and y are [N, C] X and distinct, for the layer of this number. Writes
  /// every tensor that `kept` has.
  void layer_forward(Stream& compute, int layer, const LayerWeights& w, const CellBatch& batch,
                     ConstTensorView x, const KeptActivations& kept, TensorView y, const Tag& tag);
  /// Adds the cell's part to the gradients `dw` that are there. d [N, C] X is the gradient of the
  /// layer's output and becomes that of its input. What forward did not keep is computed again from
  /// its input x [N, C] X, with the same bits; what `kept` has may be overwritten.
  void layer_backward(Stream& compute, int layer, const LayerWeights& w, const LayerGradients& dw,
                      const CellBatch& batch, ConstTensorView x, const KeptActivations& kept,
                      TensorView d, const Tag& tag);
  /// Runs final norm, logits, loss and the backward of all three, a chunk of head_chunk tokens at a
  /// time. x [N, C] X is the head's input; loss [N] A is written per token; d [N, C] X becomes the
  /// gradient of x and what is there of `dw` is added to, both scaled by grad_scale [1] A.
  void head_forward_backward(Stream& compute, const HeadWeights& w, const HeadGradients& dw,
                             const CellBatch& batch, ConstTensorView grad_scale, ConstTensorView x,
                             TensorView d, TensorView loss, const Tag& tag);
  /// Does the same for pairs of answers, with a sizes.preference: two sweeps over the chunks, the
  /// first for log-probabilities, the second for gradients with the factors that follow from them.
  /// `pairs.figures` [N / 4, 4] A are written as PreferenceLoss does.
  void head_preference(Stream& compute, const HeadWeights& w, const HeadGradients& dw,
                       const CellBatch& batch, ConstTensorView grad_scale, ConstTensorView x,
                       TensorView d, const PairOutputs& pairs, const Tag& tag);
  /// Writes the figures of pairs alone, for validation.
  void head_preference_forward(Stream& compute, const HeadWeights& w, const CellBatch& batch,
                               ConstTensorView x, const PairOutputs& pairs, const Tag& tag);
  /// Computes the loss [N] A per token alone, for validation and for a reference.
  void head_forward(Stream& compute, const HeadWeights& w, const CellBatch& batch,
                    ConstTensorView x, TensorView loss, const Tag& tag);
  /// Returns [head_chunk, V] X, strided, on the device: the logits of the chunk that head_forward
  /// computed last.
  [[nodiscard]] ConstTensorView last_logits() const;

 private:
  struct HeadChunk;
  [[nodiscard]] LayerRunner layer_runner(Stream& compute, int layer, const LayerWeights& w,
                                         const LayerGradients* dw, const Tag& tag,
                                         const DropoutMask& dropout = {}) const;
  [[nodiscard]] KeptActivations places(const KeptActivations& kept) const;
  [[nodiscard]] DropoutMask adapter_dropout(int layer, const CellBatch& batch) const;
  void layer_activations(const LayerRunner& run, const CellBatch& batch, ConstTensorView x,
                         const KeptActivations& there, const KeptActivations& a);
  void mlp_output(const LayerRunner& run, const KeptActivations& there, const KeptActivations& a,
                  const TensorView& y);
  void mlp_backward(const LayerRunner& run, const KeptActivations& there, const KeptActivations& a,
                    const TensorView& d);
  void head_sweep_back(const CellRunner& run, const HeadWeights& w, const HeadGradients& dw,
                       const CellBatch& batch, ConstTensorView grad_scale, ConstTensorView x,
                       TensorView d, TensorView loss);
  void preference_loss(const CellRunner& run, const CellBatch& batch, ConstTensorView grad_scale,
                       const PairOutputs& pairs) const;
  HeadChunk head_chunk(const CellRunner& run, const HeadWeights& w, const CellBatch& batch,
                       std::int64_t begin, ConstTensorView grad_scale, ConstTensorView x,
                       TensorView loss);

  ModelSpec spec_;
  LlamaSizes sizes_;
  Kernels& kernels_;
  Memory memory_;
  TensorView fp8_counts_;  ///< absent: nobody counts
};

}  // namespace strata
