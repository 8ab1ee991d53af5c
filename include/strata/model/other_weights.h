// Weights of a model folder in formats that strata does not read. Whoever finds no safetensors asks
// here what to say, so that every command names the same remedy.
#pragma once

#include <filesystem>
#include <string>

namespace strata {

/// Returns what a folder has instead of safetensors and how to convert it, "has pytorch_model.bin,
/// ...; make safetensors of it by ..."; empty if it has no weights that are known, or cannot be
/// read.
[[nodiscard]] std::string other_weights(const std::filesystem::path& folder);

/// Returns, of the folder of a model in a hub's cache (models--NAME), the snapshots in it as a
/// clause, "is a model in a hub's cache; name its snapshot ..."; empty for other folders.
[[nodiscard]] std::string snapshots_of(const std::filesystem::path& folder);

}  // namespace strata
