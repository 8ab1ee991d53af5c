// The files of PEFT's folders of adapters: adapter_config.json, which says which modules of a model
// have one and how it is scaled, and the names of tensors in adapter_model.safetensors.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "strata/model/adapters.h"
#include "strata/model/spec.h"

namespace strata {

/// The names of the two files of a folder.
inline constexpr std::string_view kPeftConfigName = "adapter_config.json";
inline constexpr std::string_view kPeftWeightsName = "adapter_model.safetensors";

/// Returns the name that PEFT gives to one of the two matrices, "lora_A" [rank, in] or "lora_B"
/// [rows, rank], of the adapter of a model's tensor, such as
/// "model.layers.0.self_attn.q_proj.weight".
[[nodiscard]] std::string peft_name(std::string_view tensor, std::string_view matrix);

/// Returns the name that PEFT gives to a tensor of a module that is trained whole.
[[nodiscard]] std::string peft_name(std::string_view tensor);

/// Returns the names that a folder has for the modules that modules_to_save of a config names, so
/// that names which mean the same modules of a model are the same. Throws ConfigError that names
/// one which means none.
[[nodiscard]] std::vector<std::string> peft_modules(ModelSpec spec,
                                                    const std::vector<std::string>& modules);

/// Reads adapter_config.json. Throws IoError if the file cannot be read, and ConfigError that names
/// every key by which the adapters would be other ones than strata computes, and values that are
/// wrong. Whether names fit to a model, check_adapters() finds.
[[nodiscard]] AdapterConfig read_peft_config(const std::filesystem::path& file);

/// Returns the text of adapter_config.json for adapters that add_adapters() has given to `spec`.
/// `base` is the folder or the name of the model that they are for. Targets that mean all linears
/// are written as their names, so that readers need not know what is one.
[[nodiscard]] std::string peft_config_text(const AdapterConfig& config, const ModelSpec& spec,
                                           const std::string& base);

}  // namespace strata
