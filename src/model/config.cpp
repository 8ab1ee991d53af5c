// Lists the fields of a LLaMA, counts its parameters and checks its sizes. Upper limits keep every
// later product of sizes within 64 bits.

#include "strata/model/config.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace strata {

void RopeScaling::fields(FieldList& f) {
  f.choice("rope_type", rope_type, kRopeTypeNames, "llama3: stretch long wavelengths (Llama 3.1)");
  f.add("factor", factor, "long wavelengths are multiplied by this");
  f.add("low_freq_factor", low_freq_factor, "wavelengths above original / this are stretched");
  f.add("high_freq_factor", high_freq_factor, "wavelengths below original / this are kept");
  f.add("original_max_position_embeddings", original_max_position_embeddings,
        "row length before the stretching");
}

void LlamaConfig::fields(FieldList& f) {
  f.add("vocab_size", vocab_size, "rows of the embedding and of the head");
  f.add("hidden_size", hidden_size, "width of the residual stream");
  f.add("intermediate_size", intermediate_size, "width of the SwiGLU feed-forward");
  f.add("num_hidden_layers", num_hidden_layers, "layers");
  f.add("num_attention_heads", num_attention_heads, "query heads");
  f.add("num_key_value_heads", num_key_value_heads,
        "key and value heads (GQA); null: as many as query heads");
  f.add("head_dim", head_dim, "width of a head; null: hidden_size / num_attention_heads");
  f.add("max_position_embeddings", max_position_embeddings, "longest row the model is made for");
  f.add("rope_theta", rope_theta, "base of the rotary embedding");
  f.add("rope_scaling", rope_scaling, "scaling of the rotary embedding; null: none");
  f.add("rms_norm_eps", rms_norm_eps, "added to the mean square in RMSNorm");
  f.add("tie_word_embeddings", tie_word_embeddings, "the head uses the embedding's weights");
  f.add("initializer_range", initializer_range, "standard deviation of random initial weights");
}

std::int64_t LlamaConfig::layer_parameter_count() const {
  const std::int64_t attention = hidden_size * (2 * query_width() + 2 * kv_width());
  return attention + 3 * hidden_size * intermediate_size + 2 * hidden_size;
}

std::int64_t LlamaConfig::parameter_count() const {
  const std::int64_t embeddings = (tie_word_embeddings ? 1 : 2) * vocab_size * hidden_size;
  return embeddings + num_hidden_layers * layer_parameter_count() + hidden_size;
}

std::int64_t LlamaConfig::matmul_parameter_count() const {
  return num_hidden_layers * (layer_parameter_count() - 2 * hidden_size) + vocab_size * hidden_size;
}

void LlamaConfig::validate(ConfigProblems& problems, std::string_view prefix) const {
  const auto add = [&](std::string_view key, const std::string& text) {
    problems.add(std::string(prefix) + std::string(key), text);
  };
  // The upper limits keep every product of sizes within 64 bits.
  bool sizes_usable = true;
  const auto check_size = [&](std::string_view key, std::int64_t value, std::int64_t limit) {
    if (value >= 1 && value <= limit) return;
    sizes_usable = false;
    add(key, value == 0
                 ? "is required"
                 : "must be from 1 to " + std::to_string(limit) + ", not " + std::to_string(value));
  };
  constexpr std::int64_t kMaxWidth = 1 << 20;
  constexpr std::int64_t kMaxCount = 1 << 12;
  constexpr std::int64_t kMaxIndex = std::numeric_limits<std::int32_t>::max();
  check_size("vocab_size", vocab_size, kMaxIndex);
  check_size("hidden_size", hidden_size, kMaxWidth);
  check_size("intermediate_size", intermediate_size, kMaxWidth);
  check_size("num_hidden_layers", num_hidden_layers, kMaxCount);
  check_size("num_attention_heads", num_attention_heads, kMaxCount);
  check_size("max_position_embeddings", max_position_embeddings, kMaxIndex);
  if (num_key_value_heads) check_size("num_key_value_heads", *num_key_value_heads, kMaxCount);
  if (head_dim) check_size("head_dim", *head_dim, kMaxCount);

  if (sizes_usable) {
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
    }
  }
  if (!(rope_theta > 0)) add("rope_theta", "must be above 0");
  if (!(rms_norm_eps > 0)) add("rms_norm_eps", "must be above 0");
  if (!(initializer_range >= 0)) add("initializer_range", "must not be negative");
  if (rope_scaling && rope_scaling->rope_type == RopeType::kLlama3) {
    const RopeScaling& s = *rope_scaling;
    if (!(s.factor >= 1)) add("rope_scaling.factor", "must be at least 1");
    if (!(s.low_freq_factor > 0)) add("rope_scaling.low_freq_factor", "must be above 0");
    if (!(s.high_freq_factor > s.low_freq_factor)) {
      add("rope_scaling.high_freq_factor", "must be above low_freq_factor");
    }
    if (s.original_max_position_embeddings < 1) {
      add("rope_scaling.original_max_position_embeddings", "must be at least 1");
    }
  }
}

}  // namespace strata
