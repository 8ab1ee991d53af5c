// Names of files and folders that are there for a while. Nobody can foresee them, and what is made
// under them is new: in a folder that others write to, such as /tmp, a name that can be guessed is
// one under which they leave a link to a file of this user's.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace strata {

/// Returns a new name beside `path`: a dot, the beginning of its last part, a dot, `what`, and 16
/// random digits, short enough for every file system.
[[nodiscard]] std::filesystem::path name_beside(const std::filesystem::path& path,
                                                std::string_view what);

/// Returns a name in the folder that this system has for temporary files (TMPDIR). Throws IoError
/// where that is no folder.
[[nodiscard]] std::filesystem::path temporary_name(std::string_view name);

/// A new folder that only this user may look into. It goes with the object, and all that is in it.
class TemporaryFolder {
 public:
  /// Makes the folder `name`, a "-", and 16 random digits. Throws IoError that names it, without a
  /// remedy, if the system does not.
  explicit TemporaryFolder(const std::filesystem::path& name);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace strata
