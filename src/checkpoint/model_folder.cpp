// Makes the small files of model/. They come from the model's config, from the layout of the
// checkpoint, and from the folder of an imported model, which is input and read as such.

#include "strata/checkpoint/model_folder.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/base/narrow.h"
#include "strata/model/peft_config.h"
#include "strata/tokenizer/tokenizer_files.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 256 * kMiB;
constexpr const char* kConfig = "config.json";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kGenerationConfig = "generation_config.json";

/// Returns the text of kIndex: which file holds which tensor.
std::string index_text(const CheckpointLayout& files, const ModelLayout& layout) {
  nlohmann::json map = nlohmann::json::object();
  std::int64_t elements = 0;
  for (const BlockId id : layout.blocks.ids()) {
    const fs::path file = files.blocks[id].model.path;
    for (const Segment& segment : layout.blocks[id].segments) {
      elements += segment.elements();
      for (const SourceTensor& source : segment.sources)
        map[source.name] = file.filename().string();
    }
  }
  const std::uint64_t bytes =
      narrow<std::uint64_t>(elements) * files.types.bytes_of(StatePart::kWeight);
  const nlohmann::json index{{"metadata", {{"total_parameters", elements}, {"total_size", bytes}}},
                             {"weight_map", std::move(map)}};
  return json_text(index, 2) + '\n';
}

/// Returns whether a file of this name is copied as it is: transformers may look for it to make
/// tokens, or to generate.
bool is_copied(std::string_view name) { return is_of_tokenizer(name) || name == kGenerationConfig; }

}  // namespace

ImportedFiles files_of_model(const fs::path& folder) {
  std::vector<std::string> names = make_system_files()->list(folder);
  std::ranges::move(other_template_names(folder), std::back_inserter(names));
  return {.names = std::move(names),
          .read =
              [folder](const std::string& name) {
                return read_text_file(folder / name, kMostBytes, Links::kOfModel);
              },
          .has_config = true};
}

ImportedFiles files_of_checkpoint(const Files& files, const FoundCheckpoint& checkpoint) {
  ImportedFiles imported;
  imported.has_config = true;
  for (const ManifestFile& file : checkpoint.manifest.files) {
    if (!file.path.starts_with(kModelFolder)) continue;
    imported.names.push_back(file.path.substr(kModelFolder.size()));
  }
  const fs::path folder = checkpoint.folder / kModelFolder;
  imported.read = [&files, folder](const std::string& name) {
    return read_whole(files, folder / name, kMostBytes);
  };
  return imported;
}

std::vector<SmallFile> model_folder_files(const CheckpointLayout& files, const ModelLayout& layout,
                                          const LlamaConfig& config,
                                          const ImportedFiles& imported) {
  std::vector<SmallFile> result;
  const auto add = [&](const std::string& name, std::string contents) {
    result.push_back({std::string(kModelFolder) + name, std::move(contents)});
  };
  std::optional<std::string> config_text;
  if (imported.has_config) config_text = imported.read(kConfig);
  for (const std::string& name : imported.names) {
    if (is_copied(name)) add(name, imported.read(name));
  }
  add(kConfig, llama_config_text(config, files.types.weight, config_text));
  if (!layout.adapted()) add(kIndex, index_text(files, layout));
  std::ranges::sort(result, {}, &SmallFile::path);
  return result;
}

bool is_model_file(std::string_view name) {
  return name == kConfig || name == kIndex || name == kPeftConfigName ||
         name.ends_with(".safetensors") || is_copied(name);
}

}  // namespace strata
