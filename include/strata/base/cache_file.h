// The user's cache, whose small files all runs share: plans of matrix products, rates of a machine.

#pragma once

#include <filesystem>
#include <string>

namespace strata {

/// Returns $XDG_CACHE_HOME/strata, else ~/.cache/strata, or an empty path if the environment names
/// neither.
[[nodiscard]] std::filesystem::path user_cache_folder();

/// Writes a file of a cache, and its folder if there is none. Readers find the old file or the new
/// one, never a part. Throws as OutputFile does.
void replace_cache_file(const std::filesystem::path& file, const std::string& text);

}  // namespace strata
