// A folder that gets its name only when all of it is there, as OutputFile does it for one file.
// `export` and `import` write models through it.
#pragma once

#include <filesystem>

#include "strata/checkpoint/files.h"

namespace strata {

/// What becomes of a model that has the name already.
enum class OldModel : bool {
  kRefuse,
  kReplace,  ///< it goes once the new one is whole
};

/// A folder with the files of a model, under a temporary name beside the final one; the destructor
/// removes it unless it was published. One thread at a time uses it.
class NewFolder {
 public:
  /// Makes the temporary folder, and folders above it that are not there. Throws ConfigError if
  /// there is something of the name that is not replaced: whatever it is with kRefuse; else what is
  /// no folder, holds files that are not part of a model, or is part of a checkpoint. Throws
  /// IoError if the folder cannot be made.
  NewFolder(Files& files, const std::filesystem::path& name, OldModel old_model);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  /// Returns where the files go.
  [[nodiscard]] const std::filesystem::path& path() const { return temporary_; }
  /// Synchronises the folder and gives it its name; then a model that had it is removed.
  void publish();

 private:
  [[nodiscard]] bool require_replaceable() const;

  Files& files_;
  std::filesystem::path name_;
  OldModel old_model_;
  std::filesystem::path temporary_;
  bool published_ = false;
};

/// Makes a folder and those above it that are not there. Throws IoError for one that cannot be
/// made.
void make_with_parents(Files& files, const std::filesystem::path& folder);

}  // namespace strata
