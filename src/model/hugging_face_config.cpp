// Reads the config.json of a Hugging Face model, in the spellings of several versions of
// transformers. What strata would load but compute differently is refused by name.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "strata/base/error.h"
#include "strata/model/config.h"

namespace strata {
namespace {

using Json = nlohmann::json;

Json read_json_object(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw IoError(file.string() + ": cannot be read");
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw ConfigError(file.string() + ": not a JSON object");
  return json;
}

/// Returns the value at `key`, or null where the key is missing.
Json value_at(const Json& json, std::string_view key) {
  const auto found = json.find(key);
  return found == json.end() ? Json() : *found;
}

/// Refuses what would load and then compute something else.
void check_supported(const Json& json, ConfigProblems& problems) {
  const Json architectures = value_at(json, "architectures");
  const bool llama_class =
      architectures.is_array() &&
      std::count(architectures.begin(), architectures.end(), Json("LlamaForCausalLM")) != 0;
  if (!llama_class && value_at(json, "model_type") != "llama") {
    problems.add("architectures", "expected LlamaForCausalLM, found " + architectures.dump() +
                                      " with model_type " + value_at(json, "model_type").dump());
  }
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    const Json bias = value_at(json, key);
    if (!bias.is_null() && bias != false) problems.add(key, "models with biases are not supported");
  }
  const Json activation = value_at(json, "hidden_act");
  if (!activation.is_null() && activation != "silu") {
    problems.add("hidden_act", "only \"silu\" is supported, found " + activation.dump());
  }
  if (!value_at(json, "quantization_config").is_null()) {
    problems.add("quantization_config",
                 "quantized weights are not supported; use the bf16, f16 or f32 original");
  }
}

/// Returns `rope_scaling` with its type under its present name, or null if nothing is scaled.
Json normalised_rope_scaling(const Json& rope, std::string_view key, ConfigProblems& problems) {
  Json type = value_at(rope, "rope_type");
  if (type.is_null()) type = value_at(rope, "type");  // before transformers 4.43
  if (type.is_null() || type == "default") return nullptr;
  if (type != "llama3") {
    problems.add(std::string(key) + ".rope_type",
                 "\"default\" and \"llama3\" are supported, found " + type.dump());
    return nullptr;
  }
  Json scaling{{"rope_type", type}};
  for (const char* name :
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    const Json value = value_at(rope, name);
    if (value.is_null()) problems.add(std::string(key) + '.' + name, "is required for llama3");
    scaling[name] = value;
  }
  return scaling;
}

}  // namespace

LlamaConfig load_llama_config(const std::filesystem::path& file) {
  const Json json = read_json_object(file);
  ConfigProblems problems;
  check_supported(json, problems);

  LlamaConfig config;
  config.rms_norm_eps = 1e-6;  // what transformers takes where the key is missing
  Json known = Json::object();
  const FieldList fields = fields_of(config);
  for (const Field& field : fields.all()) {
    const Json value = value_at(json, field.key);
    if (!value.is_null()) known[field.key] = value;
  }
  // transformers 5 keeps theta and scaling together.
  const Json rope_parameters = value_at(json, "rope_parameters");
  const std::string rope_key = rope_parameters.is_object() ? "rope_parameters" : "rope_scaling";
  const Json rope = value_at(json, rope_key);
  known.erase("rope_scaling");
  if (rope.is_object()) {
    known["rope_scaling"] = normalised_rope_scaling(rope, rope_key, problems);
    if (const Json theta = value_at(rope, "rope_theta"); !theta.is_null()) {
      known["rope_theta"] = theta;
    }
  } else if (!rope.is_null()) {
    problems.add(rope_key, "expected an object or null, found " + rope.dump());
  }
  problems.throw_if_any(file.string());

  read_fields(fields, known.dump(), file.string());
  config.validate(problems, "");
  problems.throw_if_any(file.string());
  return config;
}

}  // namespace strata
