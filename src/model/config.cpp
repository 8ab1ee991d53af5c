// Checks what sizes of a LLaMA must be to each other, and derives what its fields mean together.

#include "strata/model/config.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "family_keys.h"
#include "model_classes.h"
#include "strata/base/fields.h"
#include "strata/model/families.h"

namespace strata {

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
  if (c.head_size() > std::int64_t{1} << 53) return;  // no double has it, and its limit says so
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
  const std::int64_t pattern = model_class_of(model_type).window_pattern;
  const bool full = layer_types ? layer_types->at(static_cast<std::size_t>(layer)) == kFullLayer
                                : pattern > 0 && (layer + 1) % pattern == 0;
  return full ? 0 : sliding_window.value_or(0);
}

bool LlamaConfig::rotates(std::int64_t layer) const {
  if (no_rope_layers) return no_rope_layers->at(static_cast<std::size_t>(layer)) != 0;
  constexpr std::int64_t kInterval = 4;
  return model_type != ModelType::kSmolLm3 || (layer + 1) % kInterval != 0;
}

std::int64_t LlamaConfig::row_limit() const {
  if (llama_4_scaling_beta == 0 || !rope_scaling) return max_position_embeddings;
  return std::min(max_position_embeddings, rope_scaling->original_max_position_embeddings);
}

std::int64_t LlamaConfig::context_limit() const {
  if (!rope_scaling || rope_scaling->rope_type != RopeType::kLongRope) return row_limit();
  return std::min(max_position_embeddings, rope_scaling->original_max_position_embeddings);
}

std::string_view LlamaConfig::context_limit_name() const {
  return context_limit() == max_position_embeddings ? "max_position_embeddings"
         : row_limit() == max_position_embeddings
             ? "original_max_position_embeddings, for longrope"
             : "original_max_position_embeddings, after which llama_4_scaling_beta scales queries";
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
  if (model_type == ModelType::kOlmo3 && rope_theta != kThetaOfOlmo3) {
    add("rope_theta",
        "must be 500000 for model_type \"olmo3\", which transformers takes for layers "
        "with a window whatever it says");
  }
  if (llama_4_scaling_beta != 0 && !(rope_scaling && rope_scaling->rope_type == RopeType::kYarn)) {
    add("llama_4_scaling_beta",
        "needs a rope_scaling of yarn, whose original_max_position_embeddings says after how many "
        "positions queries are scaled; set that, or this to 0");
  }
  validate_layers(*this, add);
  validate_windows(*this, add);
  if (rope_scaling) validate_scaling(*rope_scaling, add);
  if (rope_scaling && rope_scaling->rope_type == RopeType::kYarn && !(rope_theta > 1)) {
    add("rope_theta", "must be above 1 for yarn");
  }
}

}  // namespace strata
