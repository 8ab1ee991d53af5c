// The architecture of a LLaMA or of a family like it, as a run config gives it or a Hugging Face
// config.json does.
// Everything that depends on sizes (layout, plan, model) reads LlamaConfig; validate() collects
// what makes it no trainable model, before anything is allocated.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/dtype.h"
#include "strata/base/field_types.h"

namespace strata {

/// The family of a model, by the name that a Hugging Face config.json gives it. All of them compute
/// what a LLaMA does, but for what is said here.
enum class ModelType : std::uint8_t {
  kLlama,
  kMistral,    ///< may have a window
  kPhi3,       ///< q, k and v are one tensor in its files, gate and up another
  kQwen2,      ///< also Qwen2.5: q, k and v have biases; layers may have windows
  kQwen3,      ///< without experts: heads of q and k are normalised; layers may have windows
  kGranite,    ///< without experts; embeddings, branches, scores and logits are multiplied
  kOlmo2,      ///< norms come after attention and the MLP; all of q and of k is normalised
  kSeedOss,    ///< biases as its config says
  kGemma,      ///< the first Gemma: gated by GELU, norms of 1 + weight, embeddings times sqrt(C)
  kSmolLm3,    ///< without a window; some layers do not rotate
  kGlm4,       ///< norms also come after attention and the MLP; neighbours are rotated as pairs
  kExaone4,    ///< norms come after, heads are normalised; where layers have windows others do not
               ///< rotate
  kOlmo3,      ///< as kOlmo2, with windows; layers that have one scale no wavelengths
  kGemma2,     ///< as kGemma, with norms on both sides, windows, and capped scores and logits
  kGemma3,     ///< as kGemma2; heads are normalised, and layers with a window have a theta of their
               ///< own
  kMinistral,  ///< as kMistral, but some layers may have no window
  kMinistral3,  ///< without a window; queries of late positions grow, see llama_4_scaling_beta
};
inline constexpr EnumName<ModelType> kModelTypeNames[] = {{ModelType::kLlama, "llama"},
                                                          {ModelType::kMistral, "mistral"},
                                                          {ModelType::kPhi3, "phi3"},
                                                          {ModelType::kQwen2, "qwen2"},
                                                          {ModelType::kQwen3, "qwen3"},
                                                          {ModelType::kGranite, "granite"},
                                                          {ModelType::kOlmo2, "olmo2"},
                                                          {ModelType::kSeedOss, "seed_oss"},
                                                          {ModelType::kGemma, "gemma"},
                                                          {ModelType::kSmolLm3, "smollm3"},
                                                          {ModelType::kGlm4, "glm4"},
                                                          {ModelType::kExaone4, "exaone4"},
                                                          {ModelType::kOlmo3, "olmo3"},
                                                          {ModelType::kGemma2, "gemma2"},
                                                          {ModelType::kGemma3, "gemma3_text"},
                                                          {ModelType::kMinistral, "ministral"},
                                                          {ModelType::kMinistral3, "ministral3"}};

/// How the wavelengths of the rotary embedding are scaled.
enum class RopeType : std::uint8_t {
  kDefault,
  kLinear,    ///< all wavelengths stretched by `factor`
  kDynamic,   ///< as kDefault for rows up to max_position_embeddings, and there are no longer ones
  kYarn,      ///< long wavelengths stretched by `factor`, and scores of attention raised
  kLlama3,    ///< long wavelengths stretched by `factor`, as in Llama 3.1
  kLongRope,  ///< each wavelength stretched by its own factor, scores raised, as in Phi-3
};
inline constexpr EnumName<RopeType> kRopeTypeNames[] = {
    {RopeType::kDefault, "default"}, {RopeType::kLinear, "linear"},
    {RopeType::kDynamic, "dynamic"}, {RopeType::kYarn, "yarn"},
    {RopeType::kLlama3, "llama3"},   {RopeType::kLongRope, "longrope"}};

/// The scaling of the rotary embedding, with the names and defaults of a Hugging Face config.json.
struct RopeScaling {
  RopeType rope_type = RopeType::kDefault;
  double factor = 8.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  std::int64_t original_max_position_embeddings = 8192;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool truncate = true;
  std::optional<double> attention_factor{};
  std::optional<double> mscale{};
  std::optional<double> mscale_all_dim{};
  std::vector<double> short_factor{};  ///< one for each pair, for rows of the original length
  std::vector<double> long_factor{};   ///< for longer rows

  /// Returns what cosines and sines are multiplied by, so that scores of attention are multiplied
  /// by its square: 1 but for yarn and longrope.
  [[nodiscard]] double magnitude() const;
  void fields(FieldList& f);
  bool operator==(const RopeScaling&) const = default;
};

/// The kinds of layers that layer_types names.
inline constexpr const char* kFullLayer = "full_attention";
inline constexpr const char* kWindowLayer = "sliding_attention";

/// The architecture of a LLaMA, in the field names of a Hugging Face config.json.
struct LlamaConfig {
  ModelType model_type = ModelType::kLlama;
  std::int64_t vocab_size = 0;                      ///< V
  std::int64_t hidden_size = 0;                     ///< C
  std::int64_t intermediate_size = 0;               ///< F
  std::int64_t num_hidden_layers = 0;               ///< L
  std::int64_t num_attention_heads = 0;             ///< H
  std::optional<std::int64_t> num_key_value_heads;  ///< K; absent: as many as heads
  std::optional<std::int64_t> head_dim;             ///< D; absent: hidden_size / heads
  std::int64_t max_position_embeddings = 2048;
  double rope_theta = 10000.0;
  double rope_local_base_freq = 10000.0;  ///< theta of a Gemma 3's layers with a window
  std::optional<RopeScaling> rope_scaling;
  double partial_rotary_factor = 1;  ///< the share of a head that is rotated
  /// Queries are multiplied by 1 + beta log(1 + floor(position / original length)): by 1 in rows of
  /// up to that length, and there are no longer ones.
  double llama_4_scaling_beta = 0;
  std::optional<std::vector<double>>
      no_rope_layers;                          ///< 0: the layer does not rotate; see fields()
  std::optional<std::int64_t> sliding_window;  ///< of layers that have one; absent: none
  std::optional<std::vector<std::string>>
      layer_types;  ///< kWindowLayer or kFullLayer for each; absent: all have the window
  double rms_norm_eps = 1e-5;
  bool tie_word_embeddings = false;
  bool attention_bias =
      false;              ///< q, k, v and the projection of what attention returns have biases
  bool mlp_bias = false;  ///< gate, up and down have biases
  double initializer_range = 0.02;
  double embedding_multiplier = 1;                    ///< of rows of the embedding
  double residual_multiplier = 1;                     ///< of what attention and the MLP add
  std::optional<double> attention_multiplier;         ///< of scores; absent: 1 / sqrt(D)
  double logits_scaling = 1;                          ///< logits are divided by it
  std::optional<std::int64_t> query_pre_attn_scalar;  ///< scores are divided by its root; absent: D
  std::optional<double> attn_logit_softcapping;       ///< cap of scores; absent: none
  std::optional<double> final_logit_softcapping;      ///< cap of logits; absent: none
  bool attention_out_bias = false;  ///< of a Seed-OSS, for which attention_bias is of q, k and v

  void fields(FieldList& f);
  bool operator==(const LlamaConfig&) const = default;

  /// Returns K, also where `num_key_value_heads` is absent.
  [[nodiscard]] std::int64_t kv_heads() const {
    return num_key_value_heads.value_or(num_attention_heads);
  }
  /// Returns D, also where `head_dim` is absent. Needs num_attention_heads > 0.
  [[nodiscard]] std::int64_t head_size() const {
    return head_dim ? *head_dim : hidden_size / num_attention_heads;
  }

  /// Returns the elements of a head that are rotated. Needs num_attention_heads > 0.
  [[nodiscard]] std::int64_t rotary_width() const {
    return static_cast<std::int64_t>(static_cast<double>(head_size()) * partial_rotary_factor);
  }
  /// Returns how many keys a query of the layer sees at most, its own and those before it; 0: all.
  [[nodiscard]] std::int64_t window(std::int64_t layer) const;
  /// Returns whether the layer rotates queries and keys.
  [[nodiscard]] bool rotates(std::int64_t layer) const;
  /// Returns how many tokens a row may have that is trained on: as many as there are positions, but
  /// where later ones scale queries the original length.
  [[nodiscard]] std::int64_t row_limit() const;
  /// Returns how many tokens a sequence may have that is continued or scored: as many as a row, but
  /// with longrope the original length, because in transformers a token more changes the keys of
  /// all others.
  [[nodiscard]] std::int64_t context_limit() const;
  /// Returns the name of the key that this is, for messages.
  [[nodiscard]] std::string_view context_limit_name() const;

  /// Returns the elements of the whole model; tied embeddings count once.
  [[nodiscard]] std::int64_t parameter_count() const;

  /// Adds to `problems` everything that makes this no trainable model; `prefix` goes before each
  /// key ("model.").
  void validate(ConfigProblems& problems, std::string_view prefix) const;
};

/// Reads a Hugging Face config.json of one of these families, validated. Keys that do not concern
/// the architecture are ignored. Throws IoError if the file cannot be read, ConfigError if it is
/// not a model that strata computes exactly (another architecture, activation or rope scaling).
[[nodiscard]] LlamaConfig load_llama_config(const std::filesystem::path& file);
/// Reads the text of such a file as load_llama_config() does; messages begin with `source`.
[[nodiscard]] LlamaConfig parse_llama_config(std::string_view text, const std::string& source);

/// Returns the text of a Hugging Face config.json of a model whose files hold weights in `weight`
/// (bf16, f32 or f64). `imported` is the config.json that the model came with: all its keys stay,
/// and what `config` says otherwise is set. Where there is none, the text says all that
/// transformers needs. parse_llama_config reads the result as `config`, but for a rope scaling that
/// changes nothing, which becomes none. Throws ConfigError if `imported` is no LLaMA that strata
/// reads.
[[nodiscard]] std::string llama_config_text(const LlamaConfig& config, DType weight,
                                            std::optional<std::string_view> imported);

}  // namespace strata
