// The files are those of every checkpoint's model folder, so there is one place that says which. A
// run that saves has collected them for its checkpoints already.

#include "strata/train/run_tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/output_file.h"
#include "strata/base/text.h"
#include "strata/checkpoint/model_folder.h"
#include "strata/data/tokenizer_folder.h"
#include "strata/runfiles/run_folder.h"
#include "strata/tokenizer/tokenizer_files.h"
#include "train/model_companions.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

/// Returns what the run's model leaves with beside its weights, by names.
std::map<std::string, std::string> texts_of(const CheckpointPlace& place, const RunConfig& config,
                                            const Checkpointer* checkpoints) {
  std::map<std::string, std::string> texts;
  if (checkpoints == nullptr) {
    const ImportedFiles files = companions_of_run(place, config).files;
    for (const std::string& name : files.names) {
      if (is_in_tokenizer_folder(name)) texts[name] = files.read(name);
    }
    return texts;
  }
  for (const SmallFile& file : checkpoints->small_files()) {
    if (!file.path.starts_with(kModelFolder)) continue;
    const std::string name = file.path.substr(kModelFolder.size());
    if (is_in_tokenizer_folder(name)) texts[name] = file.contents;
  }
  return texts;
}

}  // namespace

void write_run_tokenizer(const CheckpointPlace& place, const RunConfig& config,
                         const Checkpointer* checkpoints) {
  const std::map<std::string, std::string> texts = texts_of(place, config, checkpoints);
  const fs::path folder = place.run() / kRunTokenizerName;
  remove_tokenizer_files(folder);
  const bool has_tokenizer =
      std::ranges::any_of(texts, [](const auto& text) { return is_tokenizer_name(text.first); });
  if (!has_tokenizer) return;
  std::error_code error;
  fs::create_directory(folder, error);
  if (error || !fs::is_directory(fs::symlink_status(folder))) {
    throw IoError("run.output: " + printable_name(folder.string()) +
                  ": the folder cannot be made; remove or rename what has this name, or name "
                  "another folder with --output");
  }
  for (const auto& [name, text] : texts) write_file((folder / name).string(), text);
}

}  // namespace strata
