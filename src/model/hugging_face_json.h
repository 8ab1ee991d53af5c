// What the parts of the reader of a Hugging Face config.json share.

#pragma once

#include <string_view>

#include "model_classes.h"
#include "strata/base/error.h"
#include "strata/base/json.h"

namespace strata {

/// Returns the value at `key`, or null where the key is missing.
[[nodiscard]] inline nlohmann::json value_at(const nlohmann::json& json, std::string_view key) {
  const auto found = json.find(key);
  return found == json.end() ? nlohmann::json() : *found;
}

/// Returns the text part of a model that also takes images, as a config.json of its own; that of
/// another model as it is.
[[nodiscard]] nlohmann::json text_part(const nlohmann::json& json, ConfigProblems& problems);

/// Takes theta, width and scaling of the rotary embedding into `known`. Transformers 5 writes them
/// as rope_parameters, and where a file has the older keys as well, programs differ in what they
/// take: so they must agree.
void take_rope(const nlohmann::json& json, const ModelClass& model_class, nlohmann::json& known,
               ConfigProblems& problems);

/// Takes the window, and which layers have it, into `known`. One that is as long as the longest
/// rows changes nothing, and is none. Refuses a window of a family that has none here: transformers
/// leaves that of a LLaMA out, but other programs heed it.
void take_windows(const nlohmann::json& json, const ModelClass& model_class, nlohmann::json& known,
                  ConfigProblems& problems);
/// Writes what a config says of windows in the keys that all versions of transformers read.
void set_windows(nlohmann::json& json, const LlamaConfig& config);

}  // namespace strata
