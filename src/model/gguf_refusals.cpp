// Refuses what llama.cpp would compute otherwise than strata, each by the key that says it.

#include "gguf_refusals.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

#include "strata/base/error.h"

namespace strata {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& remedy) {
  throw ConfigError("no GGUF file can be made of this model: " + what + "; " + remedy);
}
constexpr const char* kExportFolder = "export it as a Hugging Face folder (--format hf)";

/// Refuses a key's value because of what the architecture has.
[[noreturn]] void refuse(const std::string& value, const GgufArchitecture& as,
                         const std::string& has) {
  refuse(value + ", and the " + std::string(as.name) + " of llama.cpp " + has, kExportFolder);
}

std::string key_of_bias(LinearId id, const GgufArchitecture& as) {
  if (id == LinearId::kQkv) return "attention_bias";
  if (id != LinearId::kAttentionOut) return "mlp_bias";
  return as.type == ModelType::kSeedOss ? "attention_out_bias" : "attention_bias";
}

void refuse_biases(const ModelSpec& spec, const GgufArchitecture& as) {
  for (const Linear& linear : spec.common().linears) {
    const bool is_qkv = linear.id == LinearId::kQkv;
    if (!linear.has_bias() || (is_qkv ? as.has_qkv_bias : as.has_other_biases)) continue;
    refuse(key_of_bias(linear.id, as) + " is true", as,
           "has no bias of " + std::string(name_of(linear.id)));
  }
}

void refuse_head_size(const ModelSpec& spec, const GgufArchitecture& as) {
  const AttentionSpec& attention = spec.common().attention;
  if (as.any_head_size || attention.query_width() == spec.width) return;
  refuse("head_dim is " + std::to_string(attention.head_size), as,
         "has only heads of hidden_size / num_attention_heads = " +
             std::to_string(spec.width / attention.heads));
}

void refuse_unrotated(const ModelSpec& spec, const GgufArchitecture& as) {
  if (as.unrotated_interval == 0) return;
  for (int layer = 0; layer < spec.layers(); ++layer) {
    const bool rotates = (layer + 1) % as.unrotated_interval != 0;
    if (spec.layer(layer).attention.rotates == rotates) continue;
    refuse("no_rope_layers says of layer " + std::to_string(layer) +
               (rotates ? " that it does not rotate" : " that it rotates"),
           as, "has every " + std::to_string(as.unrotated_interval) + "th layer not rotate");
  }
}

void refuse_windows(const LlamaConfig& config, const ModelSpec& spec, const GgufArchitecture& as) {
  const LayerSpec* const kind = windowed_kind(spec);
  if (as.windows == Windows::kNone && kind != nullptr) {
    refuse("sliding_window is " + std::to_string(kind->attention.window), as, "has no window");
  }
  if (as.windows != Windows::kOf64Layers) return;
  const std::string layers = std::to_string(kWindowedLayers) + " layers";
  const bool must_have = spec.layers() == kWindowedLayers;
  if (config.sliding_window && !must_have) {
    refuse("sliding_window is " + std::to_string(*config.sliding_window) +
               " and num_hidden_layers is " + std::to_string(spec.layers()),
           as, "has windows only in models of " + layers);
  }
  if (must_have && kind == nullptr) {
    refuse(config.sliding_window ? "layer_types names no layer with a window"
                                 : "sliding_window is null",
           as, "has windows in models of " + layers);
  }
}

void refuse_cap(double value, Cap cap, const std::string& key, const GgufArchitecture& as) {
  if (value > 0 && cap == Cap::kNever) refuse(key + " is set", as, "has no such cap");
  if (value == 0 && cap == Cap::kAlways) refuse(key + " is null", as, "always has such a cap");
}

void refuse_scores(const ModelSpec& spec, const GgufArchitecture& as) {
  refuse_cap(spec.common().attention.score_cap, as.score_cap, "attn_logit_softcapping", as);
  refuse_cap(spec.logits_cap, as.logits_cap, "final_logit_softcapping", as);
  if (as.layers_of_27b == 0) return;
  const AttentionSpec& attention = spec.common().attention;
  const bool is_27b = spec.layers() == as.layers_of_27b;
  const std::int64_t divisor = is_27b ? spec.width / attention.heads : attention.head_size;
  if (attention.scale == 1 / std::sqrt(static_cast<double>(divisor))) return;
  const double square = 1 / (attention.scale * attention.scale);
  refuse(
      "query_pre_attn_scalar is " + std::to_string(std::llround(square)), as,
      "takes " + std::to_string(divisor) + " in its place, which is " +
          (is_27b ? "hidden_size / num_attention_heads in models of so many layers" : "head_dim"));
}

void refuse_projection(const ModelSpec& spec, const GgufArchitecture& as) {
  if (as.projection != (spec.tied() ? Projection::kSeparate : Projection::kEmbedding)) return;
  refuse(std::string("tie_word_embeddings is ") + (spec.tied() ? "true" : "false"), as,
         spec.tied() ? "has a projection of its own" : "has no projection but the embedding");
}

/// Throws std::logic_error if the spec has what the family's models never have in llama.cpp.
void require_known(const ModelSpec& spec, const GgufArchitecture& as) {
  const AttentionSpec& attention = spec.common().attention;
  bool known =
      spec.common().activation == (as.is_gemma ? Activation::kGeluTanh : Activation::kSilu);
  if (!as.has_multipliers) {
    const auto head_size = static_cast<double>(attention.head_size);
    known = known && (as.layers_of_27b > 0 || attention.scale == 1.0 / std::sqrt(head_size)) &&
            spec.logits_scale == 1 && (as.is_gemma || spec.embedding_scale == 1) &&
            spec.common().linear(LinearId::kDown).multiplier == 1;
  }
  if (!known) throw std::logic_error("this family has no keys in GGUF yet for what it does");
}

void refuse_scaling(const RopeScaling& scaling, const GgufArchitecture& as) {
  const std::string type(enum_name(kRopeTypeNames, scaling.rope_type));
  if (scaling.rope_type == RopeType::kDynamic) {
    refuse("rope_scaling.rope_type is dynamic, which llama.cpp does not have",
           "as far as max_position_embeddings it changes nothing: set rope_scaling to null in the "
           "config.json of an exported folder, and export that");
  }
  const RopeFactors one =
      scaling.rope_type == RopeType::kLlama3 ? RopeFactors::kLlama3 : RopeFactors::kLongRope;
  const bool has_factors =
      scaling.rope_type == RopeType::kLlama3 || scaling.rope_type == RopeType::kLongRope;
  if (has_factors && as.factors != one && as.factors != RopeFactors::kAll) {
    refuse("rope_scaling.rope_type is " + type, as, "reads no factors of it");
  }
  if (scaling.rope_type != RopeType::kYarn) return;
  if (!scaling.truncate) {
    refuse("rope_scaling.truncate is false, and llama.cpp always truncates", kExportFolder);
  }
  const double usual =
      RopeScaling{.rope_type = RopeType::kYarn, .factor = scaling.factor}.magnitude();
  if (as.type == ModelType::kGemma3 && scaling.magnitude() != usual) {
    refuse("rope_scaling.attention_factor is " + std::to_string(scaling.magnitude()), as,
           "has such a factor also in layers with a window");
  }
}

}  // namespace

const LayerSpec* windowed_kind(const ModelSpec& spec) {
  const auto has_window = [](const LayerSpec& kind) { return kind.attention.window > 0; };
  const auto found = std::ranges::find_if(spec.kinds, has_window);
  return found == spec.kinds.end() ? nullptr : &*found;
}

const GgufArchitecture& require_gguf_architecture(ModelType type) {
  if (const GgufArchitecture* const found = gguf_architecture_of(type)) return *found;
  refuse("strata does not know how llama.cpp has the family \"" +
             std::string(enum_name(kModelTypeNames, type)) + "\"",
         kExportFolder);
}

void require_expressible(const LlamaConfig& config, const ModelSpec& spec,
                         const GgufArchitecture& as) {
  require_known(spec, as);
  if (config.max_position_embeddings > std::numeric_limits<std::int32_t>::max()) {
    refuse("max_position_embeddings is " + std::to_string(config.max_position_embeddings) +
               ", and llama.cpp counts positions in 32 bits",
           "set it to the length that the model was trained for");
  }
  refuse_biases(spec, as);
  refuse_head_size(spec, as);
  refuse_unrotated(spec, as);
  refuse_windows(config, spec, as);
  refuse_scores(spec, as);
  refuse_projection(spec, as);
  if (config.rope_scaling) refuse_scaling(*config.rope_scaling, as);
}

}  // namespace strata
