// Writes the config.json of a Hugging Face model: that of an imported model with all its keys, or a
// new one. What the reader says of the result is what the model is; a test holds this.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "family_keys.h"
#include "hugging_face_json.h"
#include "model_classes.h"
#include "rope_keys.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/json.h"
#include "strata/model/config.h"
#include "strata/model/families.h"

namespace strata {
namespace {

using Json = nlohmann::json;

std::string_view torch_name(DType dtype) {
  switch (dtype) {
    case DType::kBF16: return "bfloat16";
    case DType::kF32: return "float32";
    case DType::kF64: return "float64";
    default: throw ShapeError("model files hold no " + std::string(name_of(dtype)));
  }
}

/// Returns what every model of the family has that strata trains, beside its sizes. Which ids begin
/// and end a text is the tokenizer's business, of which strata knows nothing.
Json new_model(const ModelClass& own) {
  Json json{{"architectures", {own.name}}, {"hidden_act", "silu"},    {"attention_dropout", 0.0},
            {"use_cache", true},           {"bos_token_id", nullptr}, {"eos_token_id", nullptr}};
  json.update(parse_json<Json>(own.new_keys));
  return json;
}

/// Returns a field as JSON; a section as an object, or as null where it changes nothing.
Json json_value(const Field& field) {
  if (field.type != FieldType::kSection) return parse_json<Json>(field_text(field));
  if (std::holds_alternative<std::monostate>(field.get())) return nullptr;
  const Json section = parse_json<Json>(write_fields(field.section()));
  for (const auto& [type, name] : kRopeTypeNames) {
    if (section.at("rope_type") != name || type == RopeType::kDefault) continue;
    Json scaling{{"rope_type", name}};
    for (const RopeKey& key : rope_keys(type)) {  // transformers warns of others
      if (!section.at(key.name).is_null()) scaling[key.name] = section.at(key.name);
    }
    return scaling;
  }
  return nullptr;
}

/// Returns whether set_windows() writes what the key says.
bool is_window_key(std::string_view key) { return key == "sliding_window" || key == "layer_types"; }

/// Returns whether set_rope() does.
bool is_rope_key(std::string_view key) {
  return key.starts_with("rope_") || key == "partial_rotary_factor" ||
         key == "llama_4_scaling_beta";
}

/// Sets what a config says of the rotary embedding in the keys that all versions of transformers
/// read, and takes out those that might contradict them.
void set_rope(Json& json, const LlamaConfig& config, const FieldList& fields) {
  json.erase("rope_parameters");
  json.erase("original_max_position_embeddings");
  for (const char* key :
       {"rope_theta", "rope_local_base_freq", "rope_scaling", "partial_rotary_factor"}) {
    if (has_key(config.model_type, key)) json[key] = json_value(*fields.find(key));
  }
  // A Phi-3 has the original length outside of the scaling, and 4096 where it is missing.
  if (config.model_type == ModelType::kPhi3 && json["rope_scaling"].contains(kOriginalLength)) {
    json[kOriginalLength] = json["rope_scaling"][kOriginalLength];
  }
  // Transformers computes with both, whatever the scaling.
  if (has_key(config.model_type, "llama_4_scaling_beta")) {
    Json& scaling = json["rope_scaling"];
    if (scaling.is_null()) scaling = {{"rope_type", "default"}};
    if (!scaling.contains(kOriginalLength)) {
      scaling[kOriginalLength] = config.max_position_embeddings;
    }
    scaling["llama_4_scaling_beta"] = config.llama_4_scaling_beta;
  }
}

}  // namespace

std::string llama_config_text(const LlamaConfig& config, DType weight,
                              std::optional<std::string_view> imported) {
  const ModelClass& own = model_class_of(config.model_type);
  Json json = new_model(own);
  LlamaConfig wanted = config;
  const FieldList fields = fields_of(wanted);
  std::vector<std::string> keys;  // to be set: dotted inside of rope_scaling
  if (imported) {
    keys = differing_fields(parse_llama_config(*imported, "config.json"), config);
    ConfigProblems none;  // parse_llama_config() has found none
    json = text_part(parse_json<Json>(*imported), none);
  } else {
    for (const Field& field : fields.all()) keys.push_back(field.key);
  }
  for (const std::string& key : keys) {
    if (is_rope_key(key) || is_window_key(key) || !has_key(config.model_type, key)) continue;
    json[key] = json_value(*fields.find(key));
    // A missing cap is one in some families.
    if (!json[key].is_null() || key.ends_with("_softcapping")) continue;
    json.erase(key);
    // Where it is missing, as many as query heads are meant, but not in all families.
    if (key == "num_key_value_heads" && own.num_key_value_heads) {
      json[key] = config.kv_heads();
    }
    if (key == "head_dim" && own.head_dim) json[key] = config.head_size();
    if (key == "query_pre_attn_scalar") json[key] = config.head_size();
    if (key == "attention_multiplier" && own.attention_multiplier)
      json[key] = spec_of(config).common().attention.scale;
  }
  if (std::ranges::any_of(keys, is_rope_key)) set_rope(json, config, fields);
  if (std::ranges::any_of(keys, is_window_key)) set_windows(json, config);
  json.erase("quantization_config");  // weights are written as numbers
  // Transformers 5 writes dtype and reads both.
  if (json.contains("dtype")) json["dtype"] = torch_name(weight);
  if (json.contains("torch_dtype") || !json.contains("dtype")) {
    json["torch_dtype"] = torch_name(weight);
  }
  return json_text(json, 2) + '\n';
}

}  // namespace strata
