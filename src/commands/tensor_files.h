// Lists the tensors of safetensors files for people: what repeats itself from layer to layer, and
// from file to file, becomes one line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace strata {

/// A tensor as the header of its file has it.
struct ListedTensor {
  std::string name;
  std::string dtype;  ///< as safetensors names it: "BF16"
  std::vector<std::int64_t> shape;
};

/// A file of a checkpoint or of a model. What is no safetensors file has no tensors.
struct ListedFile {
  std::string path;  ///< in the folder
  std::uint64_t bytes = 0;
  std::vector<ListedTensor> tensors;  ///< by their place in the file
};

/// Reads the header of a file if it is a safetensors file. Throws IoError, as SafetensorsFile does,
/// if that is damaged.
[[nodiscard]] ListedFile list_file(const std::filesystem::path& folder, const std::string& path,
                                   std::uint64_t bytes);

/// Returns a line for each file and one for each of its tensors. Tensors of one file that differ in
/// their layer alone share a line ("model.layers.{0..31}.mlp.up_proj.weight"), and so do
/// consecutive files that then have equal lines.
[[nodiscard]] std::string grouped_text(std::vector<ListedFile> files);
/// Returns the same with every file and every tensor on a line of its own.
[[nodiscard]] std::string full_text(std::span<const ListedFile> files);

}  // namespace strata
