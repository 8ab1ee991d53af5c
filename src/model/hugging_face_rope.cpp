// Reads what a Hugging Face config.json says of the rotary embedding, in the spellings of several
// versions of transformers.

#include <algorithm>
#include <string>
#include <string_view>

#include "family_keys.h"
#include "hugging_face_json.h"
#include "rope_keys.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/json.h"

namespace strata {
namespace {

using Json = nlohmann::json;

/// Returns the values of the keys that a type of scaling reads. Where no original length is said,
/// it is `original`.
Json scaling_of(RopeType type, const Json& rope, std::string_view key, const Json& original,
                ConfigProblems& problems) {
  const std::string type_name(enum_name(kRopeTypeNames, type));
  Json scaling{{"rope_type", type_name}};
  for (const RopeKey& wanted : rope_keys(type)) {
    Json value = value_at(rope, wanted.name);
    if (value.is_null() && wanted.name == kOriginalLength) value = original;
    if (value.is_null() && wanted.required) {
      problems.add(std::string(key) + '.' + std::string(wanted.name),
                   "is required for " + type_name);
    }
    if (!value.is_null() || wanted.required) scaling[wanted.name] = value;
  }
  return scaling;
}

/// Returns `rope_scaling` with its type under its present name, or null if nothing is scaled.
Json normalised_rope_scaling(const Json& rope, std::string_view key, const ModelClass& model_class,
                             const Json& original, ConfigProblems& problems) {
  const auto path = [&](std::string_view name) {
    return std::string(key) + '.' + std::string(name);
  };
  Json type = value_at(rope, "rope_type");
  const Json old_type = value_at(rope, "type");  // before transformers 4.43
  if (type.is_null()) {
    type = old_type;
  } else if (!old_type.is_null() && old_type != type) {
    problems.add(path("type"), "is " + shown(old_type) + ", but rope_type is " + shown(type) +
                                   "; leave one of them out");
  }
  const bool is_old_name = type == "su" || type == "yarn";
  if (model_class.type == ModelType::kPhi3 && is_old_name) {
    type = "longrope";  // as transformers has it
  }
  if (type.is_null() && !value_at(rope, "factor").is_null()) {
    problems.add(path("rope_type"), "is required beside factor");
  }
  if (type.is_null()) return nullptr;
  std::string known;
  for (const auto& [value, name] : kRopeTypeNames) {
    if (type == name) {
      return value == RopeType::kDefault ? Json()
                                         : scaling_of(value, rope, key, original, problems);
    }
    known += (known.empty() ? "\"" : ", \"") + std::string(name) + '"';
  }
  problems.add(path("rope_type"), known + " are supported, found " + shown(type));
  return nullptr;
}

/// Takes what `rope`, the value of `at`, says under `key` into `known`, with which it must agree.
void take_inner(const std::string& key, const Json& rope, const std::string& at, Json& known,
                ConfigProblems& problems) {
  const Json value = value_at(rope, key);
  if (value.is_null()) return;
  const Json other = value_at(known, key);
  if (!other.is_null() && other != value) {
    problems.add(at + '.' + key, "is " + shown(value) + ", but " + key + " is " + shown(other) +
                                     " elsewhere in the file; leave out the one that the model "
                                     "was not trained with");
  }
  known[key] = value;
}

/// Returns what `rope`, the value of rope_parameters, says of all layers or of those without a
/// window, and takes what it says of those with one, whose wavelengths must not be scaled.
Json of_full_layers(const Json& rope, const ModelClass& model_class, Json& known,
                    ConfigProblems& problems) {
  const bool by_layer = rope.contains(kFullLayer) || rope.contains(kWindowLayer);
  if (by_layer != model_class.rope_by_layer) {
    problems.add("rope_parameters",
                 by_layer ? "must say the same of all layers in this family"
                          : "must say full_attention and sliding_attention apart in this family, "
                            "because transformers reads nothing else");
    return Json::object();
  }
  if (!by_layer) return rope;
  const std::string at = std::string("rope_parameters.") + kWindowLayer;
  const Json local = value_at(rope, kWindowLayer);
  const Json type = value_at(local, "rope_type");
  const Json theta = value_at(local, "rope_theta");
  if (!type.is_null() && type != "default") {
    problems.add(at + ".rope_type", "only \"default\" is supported, found " + shown(type));
  }
  if (const Json part = value_at(local, "partial_rotary_factor"); !part.is_null() && part != 1) {
    problems.add(at + ".partial_rotary_factor", "only whole heads are rotated");
  }
  if (model_class.type == ModelType::kGemma3) {
    take_inner("rope_local_base_freq", {{"rope_local_base_freq", theta}}, at, known, problems);
  } else if (!theta.is_null() && theta != model_class.rope_theta) {
    problems.add(at + ".rope_theta",
                 "must be " + shown(Json(model_class.rope_theta)) + ", found " + shown(theta));
  }
  const Json full = value_at(rope, kFullLayer);
  return full.is_null() ? Json::object() : full;
}

}  // namespace

void take_rope(const Json& json, const ModelClass& model_class, Json& known,
               ConfigProblems& problems) {
  // What transformers takes for the length of rows before they were stretched, if no scaling says
  // it.
  Json longest = value_at(json, "max_position_embeddings");
  if (longest.is_null()) longest = model_class.max_position_embeddings;
  Json outside = value_at(json, kOriginalLength);
  if (outside.is_null() && model_class.original_length) outside = *model_class.original_length;
  const Json original = outside.is_null() ? longest : outside;
  Json scaling = nullptr;
  bool taken = false;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    Json rope = value_at(json, key);
    if (rope.is_null()) continue;
    if (!rope.is_object()) {
      problems.add(key, "expected an object or null, found " + shown(rope));
      continue;
    }
    if (std::string_view(key) == "rope_parameters") {
      rope = of_full_layers(rope, model_class, known, problems);
    }
    const Json own = normalised_rope_scaling(rope, key, model_class, original, problems);
    if (taken && own != scaling) {
      problems.add("rope_scaling", "is " + shown(rope) +
                                       ", but rope_parameters says otherwise; "
                                       "leave out the one that the model was not trained with");
    }
    if (!taken) scaling = own;
    taken = true;
    take_inner("rope_theta", rope, key, known, problems);
    take_inner("partial_rotary_factor", rope, key, known, problems);
    if (has_key(model_class.type, "llama_4_scaling_beta")) {
      take_inner("llama_4_scaling_beta", rope, key, known, problems);
    }
  }
  if (!taken && model_class.type == ModelType::kMinistral3) {
    problems.add("rope_parameters",
                 "is required for this family, because transformers takes a yarn of its own where "
                 "it is missing");
  }
  if (scaling.contains(kOriginalLength) && !outside.is_null() &&
      outside != scaling[kOriginalLength]) {
    problems.add(kOriginalLength, "is " + shown(outside) + ", but that of the rope scaling is " +
                                      shown(scaling[kOriginalLength]) + "; leave it out");
  }
  // A longrope without a factor stretches to the longest row.
  if (value_at(scaling, "rope_type") == "longrope" && !scaling.contains("factor") &&
      scaling[kOriginalLength].is_number() && longest.is_number()) {
    scaling["factor"] =
        std::max(1.0, longest.get<double>() / scaling[kOriginalLength].get<double>());
  }
  known["rope_scaling"] = scaling;
}

}  // namespace strata
