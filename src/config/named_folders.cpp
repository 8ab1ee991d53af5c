// Tells what a folder is that was named in the place of something else. What cannot be looked at is
// left to who opens it, and says why it could not.

#include "config/named_folders.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "strata/base/error.h"
#include "strata/base/text.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_run(const fs::path& folder) {
  return is_folder(folder / "checkpoints") && is_file(folder / "metrics.jsonl");
}

/// Returns whether a path has the form of a model's name on Hugging Face's hub, and lies in no
/// folder that is here.
bool is_hub_name(const fs::path& path) {
  const std::string text = path.string();
  return std::ranges::count(text, '/') == 1 && !text.starts_with('/') && !text.starts_with('.') &&
         !text.starts_with('~') && !text.ends_with('/') && !is_folder(path.parent_path());
}

}  // namespace

void require_config_file(const fs::path& file) {
  if (!is_folder(file)) return;
  std::string text =
      printable_name(file.string()) + ": is a folder; name a run config, a JSON file";
  if (is_run(file)) {
    text += ", such as that of this run, " + printable_name((file / "config.json").string());
  } else if (is_file(file / "config.json")) {
    text += ", which names this folder, a model's, by model.path";
  }
  throw ConfigError(text);
}

bool is_gone(const fs::path& model_path) {
  std::error_code error;
  const fs::file_type type = fs::status(model_path, error).type();
  if (type == fs::file_type::not_found) return true;
  if (!error) return false;
  const bool too_long = error == std::errc::filename_too_long;
  throw IoError("model.path: " +
                printable_name(too_long ? shortened(model_path.string()) : model_path.string()) +
                ": " + error.message());
}

void require_model_folder(const fs::path& folder) {
  const std::string name = "model.path: " + printable_name(folder.string());
  if (is_gone(folder)) {
    std::string text = name + ": there is no such folder";
    if (is_hub_name(folder)) {
      text += "; models are not downloaded: hf download " + printable_name(folder.string()) +
              " --local-dir FOLDER makes one";
    }
    throw IoError(text);
  }
  if (!is_run(folder)) return;
  throw IoError(name + ": is a run's folder; name the model of one of its checkpoints, " +
                printable_name((folder / "checkpoints/step-N/model").string()) +
                ", or go on with that run by --resume");
}

void refuse_folders(const FileSources& token_files, const char* key, ConfigProblems& problems) {
  for (const std::string& file : token_files.files()) {
    if (!is_folder(file)) continue;
    problems.add(key, printable_name(file) + " is a folder; name token files in it, as in " +
                          printable_name((fs::path(file) / "*.bin").string()));
  }
}

}  // namespace strata
