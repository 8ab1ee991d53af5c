// Reads and writes what a Hugging Face config.json says of sliding windows, in the spellings of
// several versions of transformers: a window for all layers, a number of layers before the first
// that has it, or a kind for each layer.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "config_limits.h"
#include "family_keys.h"
#include "hugging_face_json.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/json.h"

namespace strata {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kUsualFullLayers = 28;  // of a Qwen where max_window_layers is missing

/// Returns the window that all programs or transformers heed: null, or a positive integer.
Json window_of(const Json& json, const ModelClass& model_class, ConfigProblems& problems) {
  const WindowSwitch by = model_class.window_switch;
  const Json on = value_at(json, "use_sliding_window");
  if (by == WindowSwitch::kOffUnlessOn && on != true) return nullptr;
  if (by == WindowSwitch::kOnUnlessOff && on == false) return nullptr;
  Json window = value_at(json, "sliding_window");
  if (!json.contains("sliding_window") && model_class.sliding_window) {
    window = *model_class.sliding_window;
  }
  if (window.is_null() || (window.is_number_integer() && window >= 1)) return window;
  problems.add("sliding_window",
               "expected an integer of at least 1 or null, found " + shown(window));
  return nullptr;
}

/// Returns whether a window hides nothing in the longest rows.
bool holds_all(const Json& window, const Json& json, const ModelClass& model_class) {
  Json longest = value_at(json, "max_position_embeddings");
  if (longest.is_null()) longest = model_class.max_position_embeddings;
  return window.is_null() || (longest.is_number_integer() && window >= longest);
}

/// Returns layer_types if it is there, checked to name kinds of layers that strata has.
Json checked_types(const Json& json, ConfigProblems& problems) {
  Json types = value_at(json, "layer_types");
  const auto is_known = [](const Json& type) { return type == kFullLayer || type == kWindowLayer; };
  if (types.is_null()) return types;
  if (types.is_array() && std::all_of(types.begin(), types.end(), is_known)) return types;
  problems.add(
      "layer_types",
      "expected a list of \"full_attention\" and \"sliding_attention\", found " + shown(types));
  return nullptr;
}

bool names_windows(const Json& types) {
  return std::any_of(types.begin(), types.end(),
                     [](const Json& type) { return type == kWindowLayer; });
}

/// Returns kinds of so many layers, each pattern-th of which has no window; 0: all have it.
Json types_of_pattern(std::int64_t pattern, std::int64_t layers) {
  Json types = Json::array();
  for (std::int64_t i = 1; i <= std::min(layers, kMostLayers); ++i) {
    types.push_back(pattern > 0 && i % pattern == 0 ? kFullLayer : kWindowLayer);
  }
  return types;
}

/// Returns the kinds of layers of a Qwen that has no layer_types.
Json types_of_qwen(const Json& json, ConfigProblems& problems) {
  Json full = value_at(json, "max_window_layers");
  if (!json.contains("max_window_layers")) full = kUsualFullLayers;
  const Json layers = value_at(json, "num_hidden_layers");
  if (!full.is_number_integer()) {
    problems.add("max_window_layers", "expected an integer, found " + shown(full));
    return Json::array();
  }
  Json types = Json::array();
  if (!layers.is_number_integer()) return types;
  for (std::int64_t i = 0; i < std::min(layers.get<std::int64_t>(), kMostLayers); ++i) {
    types.push_back(i >= full ? kWindowLayer : kFullLayer);
  }
  return types;
}

/// Takes the window of a Qwen, some of whose layers may have none.
void take_by_layer(const Json& json, const Json& window, const Json& listed, Json& known,
                   ConfigProblems& problems) {
  if (window.is_null()) {
    if (!names_windows(listed)) return;
    problems.add("layer_types",
                 "has layers with a window, but there is none: set sliding_window, "
                 "and use_sliding_window to true");
    return;
  }
  const Json types = listed.is_null() ? types_of_qwen(json, problems) : listed;
  if (!names_windows(types)) return;
  known["sliding_window"] = window;
  if (std::count(types.begin(), types.end(), kFullLayer) > 0) known["layer_types"] = types;
}

/// Takes the window of a family in which every so many layers one has none, or all have it, unless
/// layer_types says otherwise. Of these families an EXAONE 4 alone may have no window.
void take_by_pattern(const Json& json, const Json& window, const Json& listed,
                     const ModelClass& model_class, Json& known, ConfigProblems& problems) {
  const bool is_exaone = model_class.type == ModelType::kExaone4;
  if (window.is_null()) {
    if (is_exaone && !names_windows(listed)) return;
    problems.add("sliding_window",
                 "must be an integer, because transformers makes masks of a window");
    return;
  }
  Json pattern = model_class.window_pattern;
  if (model_class.type == ModelType::kGemma3 || is_exaone) {
    const Json found = value_at(json, "sliding_window_pattern");
    if (!found.is_null()) pattern = found;
  }
  if (listed.is_null() && pattern != model_class.window_pattern &&
      !(pattern.is_number_integer() && pattern >= 1)) {
    problems.add("sliding_window_pattern", "expected an integer of at least 1, found " +
                                               shown(pattern) + "; or set layer_types");
    return;
  }
  const Json layers = value_at(json, "num_hidden_layers");
  if (!layers.is_number_integer()) return;
  const Json usual = types_of_pattern(model_class.window_pattern, layers.get<std::int64_t>());
  const Json types = listed.is_null()
                         ? types_of_pattern(pattern.get<std::int64_t>(), layers.get<std::int64_t>())
                         : listed;
  // Layers of an EXAONE 4 without a window do not rotate if there is one, even in no layer.
  if (!is_exaone && !names_windows(types)) return;
  known["sliding_window"] = window;
  if (types != usual) known["layer_types"] = types;
}

/// Writes the window of such a family, and the kinds of its layers.
void set_by_pattern(Json& json, const LlamaConfig& config, const std::vector<std::string>& types) {
  json.erase("sliding_window_pattern");
  json["layer_types"] = types;
  if (config.sliding_window) {
    json["sliding_window"] = *config.sliding_window;
  } else if (config.model_type == ModelType::kExaone4) {
    json["sliding_window"] = nullptr;
  } else {
    json["sliding_window"] = config.max_position_embeddings;  // of no layer
  }
}

}  // namespace

void take_windows(const Json& json, const ModelClass& model_class, Json& known,
                  ConfigProblems& problems) {
  known.erase("sliding_window");
  known.erase("layer_types");
  const Json window = window_of(json, model_class, problems);
  const Json types = checked_types(json, problems);
  if (model_class.needs_window) {
    return take_by_pattern(json, window, types, model_class, known, problems);
  }
  if (has_key(model_class.type, "layer_types")) {
    if (holds_all(window, json, model_class) && !window.is_null()) return;
    return take_by_layer(json, window, types, known, problems);
  }
  const bool hides = !holds_all(window, json, model_class);
  const bool may_hide = has_key(model_class.type, "sliding_window");
  if (names_windows(types) || (hides && may_hide && types.is_array())) {
    problems.add("layer_types",
                 "is not read for this family, all of whose layers have a window or none; leave it "
                 "out and set sliding_window");
    return;
  }
  if (!hides) return;
  if (may_hide) {
    known["sliding_window"] = window;
    return;
  }
  problems.add("sliding_window",
               "only attention without a window is supported for this family, found " +
                   shown(window) +
                   ". Set it to null if the model has none. To use the model for rows that fit "
                   "into the window, set max_position_embeddings to the window");
}

void set_windows(Json& json, const LlamaConfig& config) {
  if (!has_key(config.model_type, "sliding_window")) return;
  std::vector<std::string> types;
  std::int64_t window = 0;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    types.emplace_back(config.window(layer) > 0 ? kWindowLayer : kFullLayer);
    window = std::max(window, config.window(layer));
  }
  if (model_class_of(config.model_type).needs_window) {
    return set_by_pattern(json, config, types);
  }
  for (const char* key : {"layer_types", "max_window_layers"}) json.erase(key);
  if (!has_key(config.model_type, "layer_types")) {
    json["sliding_window"] = window > 0 ? Json(window) : Json();
    return;
  }
  json["use_sliding_window"] = window > 0;
  json.erase("sliding_window");
  if (window == 0) return;
  json["sliding_window"] = window;
  json["layer_types"] = types;
  // For versions of transformers that know no layer_types, where the two say the same.
  const auto first = std::ranges::find(types, kWindowLayer);
  if (std::all_of(first, types.end(), [](const std::string& t) { return t == kWindowLayer; })) {
    json["max_window_layers"] = first - types.begin();
  }
}

}  // namespace strata
