// Finds the files that the inputs of `strata tokenize` stand for.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "data/file_identity.h"

namespace strata {

/// A file that is to be tokenized.
struct TextFile {
  std::string name;
  FileIdentity identity{};
  std::size_t bytes = 0;
  bool named = false;  ///< by the user, not found in a folder
};

/// Returns a file's name without .gz or .zst at its end.
[[nodiscard]] std::string_view without_packing(std::string_view name);

/// Returns the files that `inputs` name, and those of their folders whose names have one of the
/// endings (all, if there is no ending), by the bytes of their paths. Of each folder one line of
/// the log says how many files were left out, by what they are. Folders that are symbolic links are
/// not entered. Throws IoError for an input that does not exist, cannot be read, or is no file.
[[nodiscard]] std::vector<TextFile> find_text_files(const std::vector<std::string>& inputs,
                                                    const std::vector<std::string>& extensions);

}  // namespace strata
