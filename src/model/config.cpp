// Lists the fields of a LLaMA with the limits of its sizes and checks what sizes must be to each
// other.

#include "strata/model/config.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "family_keys.h"
#include "strata/model/families.h"

namespace strata {
namespace {

// They keep every product of sizes within 64 bits.
constexpr double kMostWidth = 1 << 20;
constexpr double kMostHeads = 1 << 12;
constexpr double kMostHeadDim = 1 << 12;
constexpr double kMostLayers = 1 << 10;

}  // namespace

void RopeScaling::fields(FieldList& f) {
  f.choice(
      "rope_type", rope_type, kRopeTypeNames,
      "Says how wavelengths are scaled: default changes nothing, linear stretches all of them, "
      "yarn and llama3 stretch long ones, as Qwen2.5 and Llama 3.1 do for rows longer than they "
      "were first trained on, and longrope stretches each by its own factor, as Phi-3 does. "
      "dynamic stretches nothing in rows of up to "
      "max_position_embeddings, which no row exceeds.");
  f.add("factor", factor, "Sets what wavelengths are multiplied by. Raise it for longer rows.");
  f.add("low_freq_factor", low_freq_factor,
        "Sets which wavelengths are long for llama3: those above original_max_position_embeddings "
        "over this are stretched in full. It belongs to a model's weights.");
  f.add("high_freq_factor", high_freq_factor,
        "Sets which wavelengths are short for llama3: those below original_max_position_embeddings "
        "over this stay, and between the two the factor rises. It belongs to a model's weights.");
  f.add("original_max_position_embeddings", original_max_position_embeddings,
        "Says how many tokens the longest row had before the stretching. It belongs to a model's "
        "weights.");
  f.add("beta_fast", beta_fast,
        "Sets which wavelengths are short for yarn: those that turn more often than this in "
        "original_max_position_embeddings stay. It belongs to a model's weights.");
  f.add(
      "beta_slow", beta_slow,
      "Sets which wavelengths are long for yarn: those that turn less often than this are "
      "stretched in full, and between the two the factor rises. It belongs to a model's weights.");
  f.add("truncate", truncate,
        "Has yarn move both bounds outwards to whole dimensions. It belongs to a model's weights.");
  f.add(
      "attention_factor", attention_factor,
      "Sets what yarn and longrope multiply cosines and sines by. Absent, it follows from factor: "
      "0.1 ln(factor) + 1, and for longrope sqrt(1 + ln(factor) / "
      "ln(original_max_position_embeddings)). It belongs to a model's weights.");
  f.add(
      "mscale", mscale,
      "Sets, with mscale_all_dim, what attention_factor follows from where it is absent: "
      "(0.1 mscale ln(factor) + 1) / (0.1 mscale_all_dim ln(factor) + 1). It belongs to a model's "
      "weights.");
  f.add("mscale_all_dim", mscale_all_dim, "See mscale. It belongs to a model's weights.");
  f.add("short_factor", short_factor,
        "Sets what longrope multiplies each wavelength by in rows of up to "
        "original_max_position_embeddings tokens. It belongs to a model's weights.");
  f.add("long_factor", long_factor,
        "Sets what longrope multiplies each wavelength by in longer rows of training; generation "
        "has none. It belongs to a model's weights.");
}

double RopeScaling::magnitude() const {
  if (rope_type != RopeType::kYarn && rope_type != RopeType::kLongRope) return 1;
  if (attention_factor) return *attention_factor;
  if (rope_type == RopeType::kLongRope) {
    const auto original = static_cast<double>(original_max_position_embeddings);
    return factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
  }
  const auto of_scale = [&](double scale) {
    return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
  };
  const double both = mscale.value_or(0) * mscale_all_dim.value_or(0);
  return both == 0 ? of_scale(1)
                   : of_scale(mscale.value_or(1)) / of_scale(mscale_all_dim.value_or(1));
}

namespace {

void add_sizes(LlamaConfig& c, FieldList& f) {
  f.add("vocab_size", c.vocab_size,
        "Says how many rows embedding and head have, one for each id of the tokenizer. Required. "
        "With model.path, set it above that model's to begin with rows for tokens that strata "
        "tokenizer add has added: each is the mean of the rows that are there.")
      .require()
      .from(1);
  f.add("hidden_size", c.hidden_size,
        "Sets the width of the residual stream in elements. Required.")
      .require()
      .from(1, kMostWidth);
  f.add("intermediate_size", c.intermediate_size,
        "Sets the width of the SwiGLU feed-forward in elements. Required; 8/3 of hidden_size is "
        "usual.")
      .require()
      .from(1, kMostWidth);
  f.add("num_hidden_layers", c.num_hidden_layers, "Says how many layers the model has. Required.")
      .require()
      .from(1, kMostLayers);
  f.add("num_attention_heads", c.num_attention_heads,
        "Says how many query heads attention has. Required; hidden_size over 128 is usual.")
      .require()
      .from(1, kMostHeads);
  f.add("num_key_value_heads", c.num_key_value_heads,
        "Says how many key and value heads attention has, a divisor of the query heads; null takes "
        "as many. Fewer, as in Llama 3, save parameters and activations.")
      .from(1, kMostHeads);
  f.add("head_dim", c.head_dim,
        "Sets the width of a head in elements; null takes hidden_size / num_attention_heads. Set "
        "it for models whose heads are not cut out of the residual stream's width.")
      .from(1, kMostHeadDim);
}

void add_positions(LlamaConfig& c, FieldList& f) {
  f.add("max_position_embeddings", c.max_position_embeddings,
        "Says how many tokens the longest row has that the model is made for. Raise it to train "
        "with a data.sequence_length above it, which is refused.")
      .from(1);
  f.add("rope_theta", c.rope_theta,
        "Sets the base of the rotary embedding's wavelengths. Raise it for a model of long rows.")
      .above(0);
  f.add("rope_scaling", c.rope_scaling,
        "Scales the rotary embedding's wavelengths; null scales none. Set it for models that were "
        "stretched to longer rows, such as Llama 3.1.");
  f.add("partial_rotary_factor", c.partial_rotary_factor,
        "Sets the share of each head that is rotated, from its first element on. It belongs to a "
        "model's weights, and of the families only phi3 and glm4 have it.")
      .above(0);
  f.add("no_rope_layers", c.no_rope_layers,
        "Says for each layer whether it rotates queries and keys, 1 or 0; null has every fourth "
        "layer of smollm3 not rotate. It belongs to a model's weights, and of the families only "
        "smollm3 has it.");
  f.add(
       "sliding_window", c.sliding_window,
       "Sets how many tokens attention sees, the own one and those before it; null has it see all. "
       "It belongs to a model's weights, and of the families only mistral, phi3, qwen2 and qwen3 "
       "have it.")
      .from(1);
  f.add("layer_types", c.layer_types,
        "Says for each layer whether it has the sliding_window, sliding_attention or "
        "full_attention; null gives it to all. It belongs to a model's weights, and of the "
        "families only qwen2 and qwen3 have it.");
}

}  // namespace

void LlamaConfig::fields(FieldList& f) {
  f.choice(
      "model_type", model_type, kModelTypeNames,
      "Says of which family the model is, as its config.json does. Checkpoints and exports "
      "differ in the class that they name. Beside that, phi3 has q, k and v in one tensor and "
      "gate and up in another, qwen2 has biases on q, k and v, qwen3 normalises their heads of q "
      "and k, granite has multipliers, olmo2 has its norms after what they were before and norms "
      "of q and k, seed_oss has biases of its own, gemma has GELU and other norms, smollm3 has "
      "layers that do not rotate, and glm4 has norms before and after, and rotates neighbours. Set "
      "it to have a new model in the files of a family.");
  add_sizes(*this, f);
  add_positions(*this, f);
  f.add("rms_norm_eps", rms_norm_eps,
        "Sets what RMSNorm adds to the mean square. It belongs to a model's weights.")
      .above(0);
  f.add("tie_word_embeddings", tie_word_embeddings,
        "Lets the head use the embedding's weights. Set it for small models, where it saves a "
        "large share of the parameters.");
  f.add("attention_bias", attention_bias,
        "Gives q, k, v and the projection after attention biases. It belongs to a model's weights, "
        "and of the families only llama, qwen3, olmo2, seed_oss, gemma, smollm3 and glm4 have it; "
        "qwen2 has its biases without it, seed_oss has attention_out_bias for the projection, and "
        "glm4 has none there.");
  f.add("mlp_bias", mlp_bias,
        "Gives gate, up and down biases. It belongs to a model's weights, and of the families only "
        "llama, seed_oss and smollm3 have it.");
  f.add("initializer_range", initializer_range,
        "Sets the standard deviation of random initial weights. Lower it if the first steps of a "
        "large model are not stable.")
      .at_least(0);
  f.add("embedding_multiplier", embedding_multiplier,
        "Sets what rows of the embedding are multiplied by. It belongs to a model's weights, and "
        "of the families only granite has it.")
      .above(0);
  f.add("residual_multiplier", residual_multiplier,
        "Sets what attention and the feed-forward are multiplied by before they are added to the "
        "residual stream. It belongs to a model's weights, and of the families only granite has "
        "it.")
      .above(0);
  f.add("attention_multiplier", attention_multiplier,
        "Sets what scores of attention are multiplied by; null takes 1 / sqrt(head_dim). It "
        "belongs to a model's weights, and of the families only granite has it.")
      .above(0);
  f.add("logits_scaling", logits_scaling,
        "Sets what logits are divided by. It belongs to a model's weights, and of the families "
        "only granite has it.")
      .above(0);
  f.add("attention_out_bias", attention_out_bias,
        "Gives the projection after attention a bias. It belongs to a model's weights, and of the "
        "families only seed_oss has it.");
}

namespace {

/// Calls add(key, text) for what is wrong with the numbers that the type of the scaling reads.
template <class Add>
void validate_scaling(const RopeScaling& s, const Add& add) {
  if (s.rope_type == RopeType::kDefault) return;
  if (!(s.factor >= 1)) add("rope_scaling.factor", "must be at least 1");
  const bool yarn = s.rope_type == RopeType::kYarn;
  const bool llama3 = s.rope_type == RopeType::kLlama3;
  const bool longrope = s.rope_type == RopeType::kLongRope;
  if (longrope && s.original_max_position_embeddings < 2) {
    add("rope_scaling.original_max_position_embeddings", "must be at least 2");
  }
  if ((yarn || llama3) && s.original_max_position_embeddings < 1) {
    add("rope_scaling.original_max_position_embeddings", "must be at least 1");
  }
  if (llama3 && !(s.low_freq_factor > 0)) add("rope_scaling.low_freq_factor", "must be above 0");
  if (llama3 && !(s.high_freq_factor > s.low_freq_factor)) {
    add("rope_scaling.high_freq_factor", "must be above low_freq_factor");
  }
  if (yarn && !(s.beta_slow > 0)) add("rope_scaling.beta_slow", "must be above 0");
  if (yarn && !(s.beta_fast >= s.beta_slow)) {
    add("rope_scaling.beta_fast", "must be at least beta_slow");
  }
  if (!(s.magnitude() > 0) || !std::isfinite(s.magnitude())) {
    add("rope_scaling.attention_factor",
        "must be above 0, and with mscale and mscale_all_dim it is " +
            std::to_string(s.magnitude()));
  }
}

/// Calls add(key, text) for what is wrong with the part of heads that is rotated, and with factors
/// of its pairs. Heads must be even.
template <class Add>
void validate_rotary_width(const LlamaConfig& c, const Add& add) {
  if (!(c.partial_rotary_factor > 0)) return;  // its limit says so
  if (c.partial_rotary_factor > 1) return add("partial_rotary_factor", "must be at most 1");
  const std::int64_t width = c.rotary_width();
  if (width < 2 || width % 2 != 0) {
    return add("partial_rotary_factor", "must give an even number of elements, not " +
                                            std::to_string(width) + " of a head of " +
                                            std::to_string(c.head_size()));
  }
  if (!c.rope_scaling || c.rope_scaling->rope_type != RopeType::kLongRope) return;
  const auto check = [&](std::string_view key, const std::vector<double>& factors) {
    const auto wrong = [](double factor) { return !(factor > 0) || !std::isfinite(factor); };
    if (std::ssize(factors) != width / 2) {
      add(key, "must have a factor for each of the " + std::to_string(width / 2) +
                   " rotated pairs of a head, not " + std::to_string(factors.size()));
    } else if (std::ranges::any_of(factors, wrong)) {
      add(key, "must be above 0, all of them");
    }
  };
  check("rope_scaling.short_factor", c.rope_scaling->short_factor);
  check("rope_scaling.long_factor", c.rope_scaling->long_factor);
}

/// Calls add(key, text) for what is wrong with the list of layers that do not rotate.
template <class Add>
void validate_layers(const LlamaConfig& c, const Add& add) {
  if (!c.no_rope_layers || !has_key(c.model_type, "no_rope_layers")) return;
  const std::vector<double>& layers = *c.no_rope_layers;
  if (std::ssize(layers) < c.num_hidden_layers) {
    add("no_rope_layers", "must have a number for each of the " +
                              std::to_string(c.num_hidden_layers) + " layers, not " +
                              std::to_string(layers.size()));
  } else if (std::ranges::any_of(layers, [](double flag) { return flag != 0 && flag != 1; })) {
    add("no_rope_layers", "must be 1 or 0 for each layer");
  }
}

/// Calls add(key, text) for what is wrong with the list of layers that have a window.
template <class Add>
void validate_windows(const LlamaConfig& c, const Add& add) {
  if (!c.layer_types || !has_key(c.model_type, "layer_types")) return;
  const std::vector<std::string>& types = *c.layer_types;
  const auto is_known = [](const std::string& t) { return t == kFullLayer || t == kWindowLayer; };
  if (std::ssize(types) != c.num_hidden_layers) {
    add("layer_types", "must have a kind for each of the " + std::to_string(c.num_hidden_layers) +
                           " layers, not " + std::to_string(types.size()));
  } else if (!std::ranges::all_of(types, is_known)) {
    add("layer_types", "must be \"full_attention\" or \"sliding_attention\" for each layer");
  } else if (!c.sliding_window && std::ranges::count(types, kWindowLayer) > 0) {
    add("sliding_window", "is required where layer_types has \"sliding_attention\"");
  }
}

}  // namespace

std::int64_t LlamaConfig::window(std::int64_t layer) const {
  const bool full = layer_types && layer_types->at(static_cast<std::size_t>(layer)) == kFullLayer;
  return full ? 0 : sliding_window.value_or(0);
}

bool LlamaConfig::rotates(std::int64_t layer) const {
  if (no_rope_layers) return no_rope_layers->at(static_cast<std::size_t>(layer)) != 0;
  constexpr std::int64_t kInterval = 4;
  return model_type != ModelType::kSmolLm3 || (layer + 1) % kInterval != 0;
}

std::int64_t LlamaConfig::context_limit() const {
  if (!rope_scaling || rope_scaling->rope_type != RopeType::kLongRope) {
    return max_position_embeddings;
  }
  return std::min(max_position_embeddings, rope_scaling->original_max_position_embeddings);
}

std::string_view LlamaConfig::context_limit_name() const {
  return context_limit() == max_position_embeddings
             ? "max_position_embeddings"
             : "original_max_position_embeddings, for longrope";
}

std::int64_t LlamaConfig::parameter_count() const { return spec_of(*this).parameter_count(); }

void LlamaConfig::validate(ConfigProblems& problems, std::string_view prefix) const {
  const auto add = [&](std::string_view key, const std::string& text) {
    problems.add(std::string(prefix) + std::string(key), text);
  };
  LlamaConfig copy = *this;  // whose fields can be listed
  check_limits(fields_of(copy), prefix, problems);

  if (num_attention_heads >= 1 && kv_heads() >= 1 && head_dim.value_or(1) >= 1) {
    if (num_attention_heads % kv_heads() != 0) {
      add("num_key_value_heads", "must divide num_attention_heads (" +
                                     std::to_string(num_attention_heads) + "), " +
                                     std::to_string(kv_heads()) + " does not");
    }
    if (!head_dim && hidden_size % num_attention_heads != 0) {
      add("num_attention_heads",
          "must divide hidden_size (" + std::to_string(hidden_size) + ") unless head_dim is given");
    } else if (head_size() % 2 != 0) {
      add("head_dim", "must be even for rotary embeddings, not " + std::to_string(head_size()));
    } else {
      validate_rotary_width(*this, add);
    }
  }
  LlamaConfig defaults;
  const FieldList of_defaults = fields_of(defaults);
  for (const std::string& key : differing_fields(of_defaults, fields_of(copy))) {
    if (has_key(model_type, key)) continue;
    add(key, "must be " + field_text(*of_defaults.find(key)) + " for model_type \"" +
                 std::string(enum_name(kModelTypeNames, model_type)) +
                 "\", whose models have nothing else");
  }
  if (model_type == ModelType::kPhi3 && rope_scaling &&
      rope_scaling->rope_type == RopeType::kYarn) {
    add("rope_scaling.rope_type",
        "cannot be yarn for model_type \"phi3\", for which transformers reads it as longrope");
  }
  validate_layers(*this, add);
  validate_windows(*this, add);
  if (rope_scaling) validate_scaling(*rope_scaling, add);
  if (rope_scaling && rope_scaling->rope_type == RopeType::kYarn && !(rope_theta > 1)) {
    add("rope_theta", "must be above 1 for yarn");
  }
}

}  // namespace strata
