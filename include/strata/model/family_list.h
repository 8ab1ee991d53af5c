// Lists the families of models that strata knows, from the tables that it reads and writes them by.
#pragma once

#include <string_view>
#include <vector>

namespace strata {

/// A key of a config.json of which only one value is taken.
struct RefusedKey {
  std::string_view key;
  std::string_view taken;  ///< as JSON; a missing key stands for it, and so do null and false
  std::string_view why;    ///< why others are refused
};

struct FamilySummary {
  std::string_view type;                   ///< model_type: "qwen3"
  std::string_view class_name;             ///< in transformers: "Qwen3ForCausalLM"
  std::string_view models;                 ///< which models of it strata trains, in words
  std::vector<std::string_view> own_keys;  ///< of this one, that not all families have
  std::vector<RefusedKey> refused;
  std::string_view gguf;  ///< the architecture in llama.cpp; empty: no GGUF file can be made
};

/// Returns all families, in the order of ModelType.
[[nodiscard]] std::vector<FamilySummary> list_families();

}  // namespace strata
