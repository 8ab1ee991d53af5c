// What a model is, as one value: which layers it has, which matrices and norms a layer has and how
// wide they are, how it attends. A function for each family makes it of a config (families.h).
// Everything else that depends on the shape of a model is derived from it: the layout of blocks,
// views of weights, temporaries, what cells keep, the products that are tuned, and FLOPs. So the
// widths of a layer stand in one place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/field_types.h"
#include "strata/model/config.h"
#include "strata/ops/rope.h"
#include "strata/ops/swiglu.h"

namespace strata {

/// A tensor of a Hugging Face model. It fills consecutive rows of a matrix here. The weight of a
/// norm is a matrix of one row, and a bias, which may have several tensors, one of one column.
struct SourceTensor {
  std::string name;  ///< e.g. "model.layers.3.self_attn.q_proj.weight"
  std::int64_t rows = 0;
};

/// The linear layers that a layer may have, y [N, out] = x [N, in] W^T with W [out, in], plus a
/// bias [out] if it has one. Matrices that are multiplied by the same x are one.
enum class LinearId : std::uint8_t {
  kQkv,           ///< queries, keys and values, one below the other
  kAttentionOut,  ///< from what attention returns to the residual stream
  kGateUp,        ///< gate above up
  kDown,          ///< from the gated product to the residual stream
};
inline constexpr EnumName<LinearId> kLinearNames[] = {{LinearId::kQkv, "qkv"},
                                                      {LinearId::kAttentionOut, "attention_out"},
                                                      {LinearId::kGateUp, "gate_up"},
                                                      {LinearId::kDown, "down"}};
inline constexpr std::size_t kLinears = std::size(kLinearNames);
static_assert(kLinearNames[kLinears - 1].value == LinearId(kLinears - 1));
/// Returns the name of its segment.
[[nodiscard]] std::string_view name_of(LinearId id);
/// The names of the segments of their biases.
inline constexpr EnumName<LinearId> kBiasNames[] = {{LinearId::kQkv, "qkv_bias"},
                                                    {LinearId::kAttentionOut, "attention_out_bias"},
                                                    {LinearId::kGateUp, "gate_up_bias"},
                                                    {LinearId::kDown, "down_bias"}};
static_assert(std::size(kBiasNames) == kLinears);

/// The norms that a layer may have.
enum class NormId : std::uint8_t {
  kAttention,     ///< of what attention reads
  kMlp,           ///< of what the MLP reads
  kQuery,         ///< of each head of queries by itself, or of all of them, before they are rotated
  kKey,           ///< of keys; a layer has both or neither
  kAttentionOut,  ///< of what attention's projection gives, before it is added
  kMlpOut,        ///< of what the MLP gives, before it is added
};
inline constexpr EnumName<NormId> kNormNames[] = {{NormId::kAttention, "attention_norm"},
                                                  {NormId::kMlp, "mlp_norm"},
                                                  {NormId::kQuery, "query_norm"},
                                                  {NormId::kKey, "key_norm"},
                                                  {NormId::kAttentionOut, "attention_out_norm"},
                                                  {NormId::kMlpOut, "mlp_out_norm"}};
inline constexpr std::size_t kNorms = std::size(kNormNames);
static_assert(kNormNames[kNorms - 1].value == NormId(kNorms - 1));
/// Returns the name of its segment.
[[nodiscard]] std::string_view name_of(NormId id);

/// What the products of a linear multiply. Codes in e4m3 have the scales of strata/ops/fp8.h.
enum class Products : std::uint8_t {
  kPlain,   ///< numbers of the compute dtype
  kFp8,     ///< codes, but for the gradient of the weights
  kFp8All,  ///< codes
};

/// A low-rank adapter of one source of a Linear (LoRA, Hu et al., 2021): the rows of y that the
/// source gives get scale * B A x in addition, with A [rank, in] and B [rows, rank]. Where a model
/// has adapters they are trained, and of other weights those of ModelSpec::whole alone.
struct Adapter {
  std::size_t source = 0;  ///< index in Linear::sources
  std::int64_t rank = 0;
  double scale = 1;  ///< not 0

  bool operator==(const Adapter&) const = default;
};

/// A linear layer. The names of its sources go on after ModelSpec::layer_prefix and the number of
/// the layer.
struct Linear {
  LinearId id{};
  std::int64_t in = 0;
  std::int64_t out = 0;                    ///< the rows of its sources together
  std::vector<SourceTensor> sources;       ///< one below the other
  std::vector<SourceTensor> bias_sources;  ///< vectors, one after the other; empty: no bias
  double multiplier = 1;                   ///< of y; not 0, and 1 where there is a bias
  Products products = Products::kPlain;    ///< which with_products() changes
  std::vector<Adapter> adapters{};         ///< by source, one of each at most

  /// No linear has more sources.
  static constexpr std::size_t kMostSources = 3;

  /// Returns the elements of the matrix.
  [[nodiscard]] std::int64_t elements() const { return in * out; }
  [[nodiscard]] bool has_bias() const { return !bias_sources.empty(); }
  /// Returns the elements of the bias, 0 if there is none.
  [[nodiscard]] std::int64_t bias_elements() const { return has_bias() ? out : 0; }
  /// Returns R, the ranks of all adapters together.
  [[nodiscard]] std::int64_t adapter_rank() const;
  /// Returns the FLOPs of the product for one token.
  [[nodiscard]] double flops() const {
    return 2.0 * static_cast<double>(in) * static_cast<double>(out);
  }
};

/// The weight of an RMSNorm, a vector, named as sources of a Linear are.
struct Norm {
  NormId id{};
  std::int64_t width = 0;
  std::string source;
};

/// The rotary embedding of queries and keys, over the first elements of each head.
struct RopeSpec {
  std::int64_t width = 0;  ///< E, elements that are rotated: at most D
  double theta = 0;
  std::optional<RopeScaling> scaling;
  RopePairs pairs = RopePairs::kHalves;

  bool operator==(const RopeSpec&) const = default;
};

/// How a layer attends: causally, with grouped heads.
struct AttentionSpec {
  std::int64_t heads = 0;      ///< H
  std::int64_t kv_heads = 0;   ///< K, a divisor of H
  std::int64_t head_size = 0;  ///< D
  double scale = 0;            ///< of scores
  RopeSpec rope;
  bool rotates = true;      ///< else heads of the layer stay as they are
  std::int64_t window = 0;  ///< of queries, see AttentionForward; 0: none
  double score_cap = 0;     ///< of scores, see AttentionForward; 0: none

  bool operator==(const AttentionSpec&) const = default;
  /// Returns H * D, the width of q and of what attention returns.
  [[nodiscard]] std::int64_t query_width() const { return heads * head_size; }
  /// Returns K * D, the width of k and of v.
  [[nodiscard]] std::int64_t kv_width() const { return kv_heads * head_size; }
};

/// One layer: x += norm(attention(norm(x))), then x += norm(mlp(norm(x))). What it has no norm for
/// goes through as it is.
struct LayerSpec {
  AttentionSpec attention;
  std::vector<Linear> linears;                ///< at most one of each id
  std::vector<Norm> norms;                    ///< at most one of each id
  Activation activation = Activation::kSilu;  ///< of the MLP's gate

  /// Returns the linear or the norm of this id. Throws std::logic_error if the layer has none.
  [[nodiscard]] const Linear& linear(LinearId id) const;
  [[nodiscard]] const Norm& norm(NormId id) const;
  [[nodiscard]] bool has(NormId id) const;
  /// Returns whether queries and keys are normalised.
  [[nodiscard]] bool normalises_heads() const;
  /// Returns the elements of all its weights.
  [[nodiscard]] std::int64_t parameter_count() const;
};

/// Modules outside of layers that are trained whole where adapters are trained. Those that are not
/// stay as they are.
struct WholeModules {
  bool embedding = false;  ///< also where it is the projection
  bool final_norm = false;
  bool projection = false;  ///< if it is not the embedding

  bool operator==(const WholeModules&) const = default;
};

/// A model: an embedding, layers, and a head of a norm and a projection to logits. Layers are of a
/// few kinds. All kinds attend alike, but for windows and the angles of rotation, and have linears
/// of the same widths, because temporaries and caches serve all layers. Their adapters may differ.
struct ModelSpec {
  std::int64_t width = 0;         ///< C, of the residual stream
  std::int64_t vocabulary = 0;    ///< V, rows of the embedding and of the projection
  double norm_eps = 0;            ///< what norms add to the mean square
  std::string embedding;          ///< its source, [V, C]
  std::string layer_prefix;       ///< what sources of a layer begin with, before its number
  std::vector<LayerSpec> kinds;   ///< the different layers, at least one
  std::vector<std::size_t> kind;  ///< [L], which of `kinds` each layer is
  std::string final_norm;         ///< the source of the head's norm, [C]
  std::string projection;         ///< that of the projection, [V, C]; empty: it is the embedding
  double embedding_scale = 1;     ///< of rows of the embedding, before the first layer
  double logits_scale = 1;        ///< of what the projection gives
  double logits_cap = 0;          ///< of logits, see SoftCapForward; 0: none
  /// What is added to weights of norms: 1 where they are stored less 1, and begin as 0.
  double norm_offset = 0;
  double adapter_dropout = 0;  ///< of what each A reads, where it is trained
  WholeModules whole{};        ///< what is trained beside adapters

  [[nodiscard]] int layers() const { return static_cast<int>(kind.size()); }
  [[nodiscard]] bool tied() const { return projection.empty(); }
  /// Returns whether a layer has adapters.
  [[nodiscard]] bool adapted() const;
  /// Returns whether the matrix that gives logits is trained.
  [[nodiscard]] bool trains_projection() const {
    return !adapted() || (tied() ? whole.embedding : whole.projection);
  }
  /// Returns whether a product of a layer multiplies codes in e4m3.
  [[nodiscard]] bool multiplies_codes() const;
  /// Returns the largest adapter_rank() of all linears.
  [[nodiscard]] std::int64_t largest_adapter_rank() const;
  /// Returns the widest `in` of the linears that have adapters, 0 if none has.
  [[nodiscard]] std::int64_t widest_adapter_input() const;
  /// Returns the most rows of a source that has an adapter, 0 if none has.
  [[nodiscard]] std::int64_t widest_adapter_output() const;
  [[nodiscard]] const LayerSpec& layer(int number) const {
    return kinds.at(kind.at(static_cast<std::size_t>(number)));
  }
  /// Returns a layer that stands for all of them in what all kinds have in common.
  [[nodiscard]] const LayerSpec& common() const { return kinds.front(); }
  /// Throws std::logic_error if a kind attends otherwise than the first one, or has a linear of
  /// another width, if it has a bias or a norm where the first one has none or the reverse, or if a
  /// linear with a bias has a multiplier.
  void require_common() const;
  /// Returns the elements of all weights but those of adapters; those of a tied embedding count
  /// once.
  [[nodiscard]] std::int64_t parameter_count() const;
  /// Returns the elements that take part in a product for every token: linears and projection.
  [[nodiscard]] std::int64_t matmul_parameter_count() const;
  /// Returns the elements of A and B of all adapters.
  [[nodiscard]] std::int64_t adapter_parameter_count() const;
};

}  // namespace strata
