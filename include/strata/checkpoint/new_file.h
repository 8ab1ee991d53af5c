// A file of a model that gets its name only when all of it is there, as NewFolder does it for a
// folder.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "strata/checkpoint/files.h"
#include "strata/checkpoint/new_folder.h"

namespace strata {

/// A file under a temporary name beside the final one; the destructor removes it unless it was
/// published. Several threads may write it.
class NewFile {
 public:
  /// Makes the temporary file, and folders above it that are not there. `magic` is what a file of
  /// its kind begins with. Throws ConfigError if there is something of the name that is not
  /// replaced: whatever it is with kRefuse; else what is no regular file, or begins otherwise.
  /// Throws IoError if the file cannot be made.
  NewFile(Files& files, const std::filesystem::path& name, std::string magic, OldModel old_model);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  [[nodiscard]] FileWriter& writer() { return *writer_; }
  /// Synchronises the file and gives it its name, in the place of one that had it.
  void publish();

 private:
  void require_replaceable() const;

  Files& files_;
  std::filesystem::path name_;
  std::string magic_;
  OldModel old_model_;
  std::filesystem::path temporary_;
  std::unique_ptr<FileWriter> writer_;
  bool published_ = false;
};

}  // namespace strata
