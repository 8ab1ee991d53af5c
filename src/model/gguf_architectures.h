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
  kLongRope,  ///< those of longrope
  kAll,       ///< also those of other scalings, such as llama3
};

/// Which projections to logits a model may have.
enum class Projection : std::uint8_t { kAny, kSeparate, kEmbedding };

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
    {.type = ModelType::kGemma, .name = "gemma", .projection = Projection::kEmbedding},
    {.type = ModelType::kSmolLm3,
     .name = "smollm3",
     .rotation = Rotation::kPairs,
     .unrotated_interval = 4},
};

/// Returns how llama.cpp has the family, or null if strata does not know.
[[nodiscard]] inline const GgufArchitecture* gguf_architecture_of(ModelType type) {
  const auto* const found = std::ranges::find(kGgufArchitectures, type, &GgufArchitecture::type);
  return found == std::end(kGgufArchitectures) ? nullptr : found;
}

}  // namespace strata
