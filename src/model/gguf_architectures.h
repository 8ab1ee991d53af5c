// Lists how llama.cpp has the families of models: what its architectures can express, and how they
// differ. Facts are from the sources of llama.cpp (src/models, src/llama-arch.cpp and its
// converter), as of version 0.3.36 of llama-cpp-python.

#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "strata/model/config.h"

namespace strata {

/// Which dimensions of a head are rotated together.
enum class Rotation : bool {
  kHalves,  ///< i and D/2 + i, as in a Hugging Face model
  kPairs,   ///< 2i and 2i + 1, so that rows are reordered
};

/// Which tensors of factors of wavelengths are read.
enum class RopeFactors : std::uint8_t {
  kNone,
  kLlama3,    ///< those of llama3
  kLongRope,  ///< those of longrope
  kAll,       ///< both
};

/// Which projections to logits a model may have.
enum class Projection : std::uint8_t { kAny, kSeparate, kEmbedding };

/// Which layers may have windows.
enum class Windows : std::uint8_t {
  kNone,
  kListed,      ///< those that a key lists
  kGemma2,      ///< those that a key lists; without the key, every other one
  kOf64Layers,  ///< those that a key lists, in models of 64 layers; others have none
};
inline constexpr int kWindowedLayers = 64;  ///< of models with Windows::kOf64Layers

/// Whether scores or logits are capped.
enum class Cap : std::uint8_t { kNever, kByKey, kAlways };

/// What an architecture of llama.cpp can express.
struct GgufArchitecture {
  ModelType type;
  std::string_view name;
  Rotation rotation = Rotation::kHalves;
  bool any_head_size = true;  ///< else heads are together as wide as the residual stream
  RopeFactors factors = RopeFactors::kNone;
  bool has_qkv_bias = false;
  bool has_other_biases = false;  ///< of attention's output and of the MLP
  Projection projection = Projection::kAny;
  bool has_multipliers = false;            ///< as keys
  std::int64_t unrotated_interval = 0;     ///< each so manieth layer does not rotate; 0: all do
  std::string_view mlp_norm = "ffn_norm";  ///< the name of the norm before the MLP
  bool is_gemma = false;  ///< gated by GELU, embeddings multiplied by the root of their width
  Windows windows = Windows::kNone;
  Cap score_cap = Cap::kNever;
  Cap logits_cap = Cap::kNever;
  /// Scores are divided by the root of hidden_size / num_attention_heads in a model of so many
  /// layers, by that of head_dim in others.
  int layers_of_27b = 0;
};
inline constexpr GgufArchitecture kGgufArchitectures[] = {
    {.type = ModelType::kLlama,
     .name = "llama",
     .rotation = Rotation::kPairs,
     .factors = RopeFactors::kAll,
     .has_qkv_bias = true,
     .has_other_biases = true},
    {.type = ModelType::kMistral,
     .name = "llama",
     .rotation = Rotation::kPairs,
     .factors = RopeFactors::kAll,
     .has_qkv_bias = true,
     .has_other_biases = true},
    {.type = ModelType::kPhi3,
     .name = "phi3",
     .any_head_size = false,
     .factors = RopeFactors::kLongRope},
    {.type = ModelType::kQwen2, .name = "qwen2", .any_head_size = false, .has_qkv_bias = true},
    {.type = ModelType::kQwen3, .name = "qwen3"},
    {.type = ModelType::kGranite,
     .name = "granite",
     .rotation = Rotation::kPairs,
     .factors = RopeFactors::kAll,
     .has_multipliers = true},
    {.type = ModelType::kOlmo2,
     .name = "olmo2",
     .any_head_size = false,
     .projection = Projection::kSeparate},
    {.type = ModelType::kSeedOss,
     .name = "seed_oss",
     .has_qkv_bias = true,
     .mlp_norm = "post_attention_norm"},
    {.type = ModelType::kGemma,
     .name = "gemma",
     .projection = Projection::kEmbedding,
     .is_gemma = true},
    {.type = ModelType::kSmolLm3,
     .name = "smollm3",
     .rotation = Rotation::kPairs,
     .unrotated_interval = 4},
    {.type = ModelType::kGlm4, .name = "glm4", .rotation = Rotation::kPairs, .has_qkv_bias = true},
    {.type = ModelType::kExaone4,
     .name = "exaone4",
     .any_head_size = false,
     .factors = RopeFactors::kLlama3,
     .windows = Windows::kOf64Layers},
    {.type = ModelType::kOlmo3,
     .name = "olmo2",
     .any_head_size = false,
     .projection = Projection::kSeparate,
     .windows = Windows::kListed},
    {.type = ModelType::kGemma2,
     .name = "gemma2",
     .projection = Projection::kEmbedding,
     .is_gemma = true,
     .windows = Windows::kGemma2,
     .score_cap = Cap::kAlways,
     .logits_cap = Cap::kAlways,
     .layers_of_27b = 46},
    {.type = ModelType::kGemma3,
     .name = "gemma3",
     .is_gemma = true,
     .windows = Windows::kListed,
     .logits_cap = Cap::kByKey,
     .layers_of_27b = 62},
    {.type = ModelType::kMinistral3,
     .name = "mistral3",
     .rotation = Rotation::kPairs,
     .factors = RopeFactors::kAll},
};

/// Returns how llama.cpp has the family, or null if strata does not know.
[[nodiscard]] inline const GgufArchitecture* gguf_architecture_of(ModelType type) {
  const auto* const found = std::ranges::find(kGgufArchitectures, type, &GgufArchitecture::type);
  return found == std::end(kGgufArchitectures) ? nullptr : found;
}

}  // namespace strata
