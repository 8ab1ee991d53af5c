// Refuses folders where a config, or its path, has to name something else: it says what they are,
// and what to name instead.
#pragma once

#include <filesystem>

#include "strata/base/fields.h"
#include "strata/base/file_sources.h"

namespace strata {

/// Throws ConfigError if the run config itself is a folder.
void require_config_file(const std::filesystem::path& file);

/// Returns whether nothing has the name that `model.path` is. Throws IoError if the system does not
/// tell.
[[nodiscard]] bool is_gone(const std::filesystem::path& model_path);

/// Throws IoError if `model.path` is not there, or is a run's folder.
void require_model_folder(const std::filesystem::path& folder);

/// Adds a problem for each of a key's token files that is a folder.
void refuse_folders(const FileSources& token_files, const char* key, ConfigProblems& problems);

}  // namespace strata
