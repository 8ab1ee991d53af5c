// Reads what a Hugging Face config.json says of the rotary embedding, in the spellings of several
// versions of transformers.

#include <string>
#include <string_view>

#include "hugging_face_json.h"
#include "rope_keys.h"
#include "strata/base/error.h"
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
Json normalised_rope_scaling(const Json& rope, std::string_view key, const Json& original,
                             ConfigProblems& problems) {
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
  if (const Json part = value_at(rope, "partial_rotary_factor"); !part.is_null() && part != 1) {
    problems.add(path("partial_rotary_factor"),
                 "only whole heads are rotated, found " + shown(part));
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

}  // namespace

void take_rope(const Json& json, const ModelClass& model_class, Json& known,
               ConfigProblems& problems) {
  // What transformers takes for the length of rows before they were stretched, if no scaling says
  // it.
  const Json outside = value_at(json, kOriginalLength);
  Json original = outside.is_null() ? value_at(json, "max_position_embeddings") : outside;
  if (original.is_null()) original = model_class.max_position_embeddings;
  Json scaling = nullptr;
  bool taken = false;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const Json rope = value_at(json, key);
    if (rope.is_null()) continue;
    if (!rope.is_object()) {
      problems.add(key, "expected an object or null, found " + shown(rope));
      continue;
    }
    const Json own = normalised_rope_scaling(rope, key, original, problems);
    if (taken && own != scaling) {
      problems.add("rope_scaling", "is " + shown(rope) +
                                       ", but rope_parameters says otherwise; "
                                       "leave out the one that the model was not trained with");
    }
    if (!taken) scaling = own;
    taken = true;
    const Json theta = value_at(rope, "rope_theta");
    if (theta.is_null()) continue;
    const Json other = value_at(known, "rope_theta");
    if (!other.is_null() && other != theta) {
      problems.add(std::string(key) + ".rope_theta",
                   "is " + shown(theta) + ", but rope_theta is " + shown(other) +
                       " elsewhere in the file; leave out the one that the model was not trained "
                       "with");
    }
    known["rope_theta"] = theta;
  }
  if (scaling.contains(kOriginalLength) && !outside.is_null() &&
      outside != scaling[kOriginalLength]) {
    problems.add(kOriginalLength, "is " + shown(outside) + ", but that of the rope scaling is " +
                                      shown(scaling[kOriginalLength]) + "; leave it out");
  }
  known["rope_scaling"] = scaling;
}

}  // namespace strata
