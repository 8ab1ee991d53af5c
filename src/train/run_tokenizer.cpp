// The files are those of every checkpoint's model folder, so there is one place that says which.

#include "strata/train/run_tokenizer.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/output_file.h"
#include "strata/base/text.h"
#include "strata/data/tokenizer_folder.h"
#include "strata/runfiles/run_folder.h"
#include "strata/tokenizer/tokenizer_files.h"
#include "train/model_companions.h"

namespace strata {

namespace fs = std::filesystem;

void write_run_tokenizer(const CheckpointPlace& place, const RunConfig& config) {
  remove_tokenizer_files(place.run() / kRunTokenizerName);
  const ImportedFiles files = companions_of_run(place, config).files;
  if (std::ranges::none_of(files.names, is_tokenizer_name)) return;
  const fs::path folder = place.run() / kRunTokenizerName;
  std::error_code error;
  fs::create_directory(folder, error);
  if (error || !fs::is_directory(fs::symlink_status(folder))) {
    throw IoError("run.output: " + printable_name(folder.string()) +
                  ": the folder cannot be made; remove or rename what has this name, or name "
                  "another folder with --output");
  }
  for (const std::string& name : files.names) {
    if (is_in_tokenizer_folder(name)) write_file((folder / name).string(), files.read(name));
  }
}

}  // namespace strata
