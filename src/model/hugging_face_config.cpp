// Reads the config.json of a Hugging Face model, in the spellings of several versions of
// transformers. What strata would load but compute differently is refused by name.

#include <algorithm>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "config_limits.h"
#include "family_keys.h"
#include "fixed_keys.h"
#include "hugging_face_json.h"
#include "model_classes.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/model/config.h"
#include "strata/model/other_weights.h"

namespace strata {
namespace {

using Json = nlohmann::json;

Json read_json_object(std::string_view text, const std::string& source) {
  std::string problem = "not a JSON object";
  try {
    Json json = parse_json<Json>(text);
    if (json.is_object()) return json;
  } catch (const std::exception& e) {
    problem = "not valid JSON: " + json_problem(e);
  }
  throw ConfigError(source + ": " + problem);
}

/// Returns whether class and type, of which one may be missing, are those of the family. Early
/// exports wrote LLaMA's class as LLaMAForCausalLM.
bool names(const Json& json, const ModelClass& model_class) {
  const Json type = value_at(json, "model_type");
  const Json classes = value_at(json, "architectures");
  const auto is_its_name = [&](const Json& name) {
    return name == model_class.name ||
           (model_class.type == ModelType::kLlama && name == "LLaMAForCausalLM");
  };
  const bool no_class = classes.is_null() || classes == Json::array();
  if (!no_class && !(classes.is_array() && std::ranges::all_of(classes, is_its_name))) return false;
  return type.is_null() ? !no_class : type == model_class.type_name();
}

/// Returns the class of the model, or that of LLaMA for another one, which it refuses.
const ModelClass& class_of(const Json& json, ConfigProblems& problems) {
  std::string expected;
  for (const ModelClass& each : kModelClasses) {
    if (names(json, each)) return each;
    expected += (expected.empty() ? "" : " or ") + std::string(each.name) + " with model_type \"" +
                std::string(each.type_name()) + '"';
  }
  problems.add("architectures", "expected " + expected + ", found " +
                                    shown(value_at(json, "architectures")) + " with model_type " +
                                    shown(value_at(json, "model_type")));
  return kModelClasses[0];
}

/// Refuses dropouts that the class has where its keys are missing.
void check_dropouts(const Json& json, const ModelClass& model_class, ConfigProblems& problems) {
  if (model_class.dropout == 0) return;
  for (const char* key : {"attention_dropout", "residual_dropout"}) {
    if (json.contains(key)) continue;
    problems.add(key, "is missing, for which transformers takes " +
                          shown(Json(model_class.dropout)) +
                          "; strata drops nothing out, set it to 0 to train without");
  }
}

/// Refuses a Gemma with another activation than its only one, under either name. Transformers takes
/// "gelu" for it in the first Gemma as well, because early files say that.
void check_activation(const Json& json, const ModelClass& model_class, ConfigProblems& problems) {
  const bool is_first = model_class.type == ModelType::kGemma;
  for (const char* key : {"hidden_act", "hidden_activation"}) {
    const Json found = value_at(json, key);
    if (found.is_null() || found == "gelu_pytorch_tanh" || (is_first && found == "gelu")) continue;
    problems.add(key, "only \"gelu_pytorch_tanh\" is supported for Gemma, found " + shown(found));
  }
}

/// Returns whether weights are in a format that SafetensorsDirectory reads. What else the section
/// says is about rounding them, which was done, or is said by their tensors again.
bool is_read(const Json& quantization) {
  const Json format = value_at(quantization, "bnb_4bit_quant_type");
  return value_at(quantization, "quant_method") == "bitsandbytes" &&
         value_at(quantization, "load_in_4bit") == true && (format.is_null() || format == "nf4");
}

/// Returns the parts of a quantization that tell which it is.
Json named_format(const Json& quantization) {
  Json named = Json::object();
  for (const char* key : {"quant_method", "load_in_4bit", "load_in_8bit", "bnb_4bit_quant_type"}) {
    if (const Json found = value_at(quantization, key); !found.is_null()) named[key] = found;
  }
  return named.empty() ? quantization : named;
}

/// Refuses what would load and then compute something else.
void check_supported(const Json& json, const ModelClass& model_class, ConfigProblems& problems) {
  for (const FixedKey& fixed : kFixedKeys) {
    if (!is_fixed(fixed.key, model_class.type)) continue;
    Json found = value_at(json, fixed.key);
    if (found.is_null() || found == false || found == parse_json<Json>(fixed.value)) continue;
    if (fixed.key == kQuantization) {
      if (is_read(found)) continue;
      found = named_format(found);
    }
    problems.add(fixed.key, std::string(fixed.why) + ", found " + shown(found));
  }
  check_dropouts(json, model_class, problems);
  if (is_gemma(model_class.type)) check_activation(json, model_class, problems);
}

/// Writes a SmolLM3's no_rope_layer_interval as a list, unless there is one.
void take_layers(const Json& json, Json& known, ConfigProblems& problems) {
  const Json interval = value_at(json, "no_rope_layer_interval");
  if (interval.is_null() || known.contains("no_rope_layers")) return;
  const Json layers = value_at(json, "num_hidden_layers");
  if (!interval.is_number_integer() || interval < 1) {
    problems.add("no_rope_layer_interval",
                 "expected an integer of at least 1, found " + shown(interval));
    return;
  }
  constexpr std::int64_t kUsual = 4;  // which no list stands for
  if (interval == kUsual || !layers.is_number_integer()) return;
  Json flags = Json::array();
  for (std::int64_t i = 1; i <= std::min(layers.get<std::int64_t>(), kMostLayers); ++i) {
    flags.push_back(i % interval.get<std::int64_t>() != 0 ? 1 : 0);
  }
  known["no_rope_layers"] = flags;
}

}  // namespace

LlamaConfig parse_llama_config(std::string_view text, const std::string& source) {
  ConfigProblems problems;
  const Json json = text_part(read_json_object(text, source), problems);
  const ModelClass& model_class = class_of(json, problems);
  check_supported(json, model_class, problems);

  LlamaConfig config;  // with what transformers takes where keys are missing
  config.rms_norm_eps = model_class.rms_norm_eps;
  config.max_position_embeddings = model_class.max_position_embeddings;
  if (!json.contains("num_key_value_heads")) {
    config.num_key_value_heads = model_class.num_key_value_heads;
  }
  if (!json.contains("head_dim")) config.head_dim = model_class.head_dim;
  config.rope_theta = model_class.rope_theta;
  config.partial_rotary_factor = model_class.partial_rotary_factor;
  config.attention_multiplier = model_class.attention_multiplier;
  config.attention_bias = model_class.attention_bias;
  config.query_pre_attn_scalar = model_class.query_pre_attn_scalar;
  if (!json.contains("attn_logit_softcapping")) {
    config.attn_logit_softcapping = model_class.attn_logit_softcapping;
  }
  if (!json.contains("final_logit_softcapping")) {
    config.final_logit_softcapping = model_class.final_logit_softcapping;
  }
  config.tie_word_embeddings = model_class.tie_word_embeddings;
  Json known = Json::object();
  const FieldList fields = fields_of(config);
  for (const Field& field : fields.all()) {
    const Json value = value_at(json, field.key);
    if (!value.is_null()) known[field.key] = value;
  }
  known["model_type"] = model_class.type_name();
  const auto if_missing = [&](const char* key, const std::optional<std::int64_t>& value) {
    if (value && !json.contains(key)) known[key] = *value;
  };
  if_missing("vocab_size", model_class.vocab_size);
  if_missing("num_attention_heads", model_class.num_attention_heads);
  if (model_class.type == ModelType::kSmolLm3) take_layers(json, known, problems);
  take_windows(json, model_class, known, problems);
  take_rope(json, model_class, known, problems);
  problems.throw_if_any(source);

  read_fields(fields, json_text(known), source);
  if (const auto& heads = model_class.num_key_value_heads;
      heads && !json.contains("num_key_value_heads") && config.num_attention_heads % *heads != 0) {
    problems.add("num_key_value_heads",
                 "is missing, for which transformers takes " + std::to_string(*heads) +
                     ", no divisor of num_attention_heads (" +
                     std::to_string(config.num_attention_heads) + "); set it");
    problems.throw_if_any(source);
  }
  config.validate(problems, "");
  problems.throw_if_any(source);
  return config;
}

LlamaConfig load_llama_config(const std::filesystem::path& file) {
  constexpr std::size_t kMostBytes = 16 * kMiB;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) {
    const std::string snapshots = snapshots_of(file.parent_path());
    if (!snapshots.empty()) throw IoError(file.parent_path().string() + ": " + snapshots);
  }
  return parse_llama_config(read_text_file(file, kMostBytes, Links::kOfModel), file.string());
}

}  // namespace strata
