// Files of a checkpoint as its manifest cuts them: windows of which the hash is known. Whoever uses
// bytes of a checkpoint reads whole windows and compares them, here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "strata/checkpoint/files.h"
#include "strata/checkpoint/manifest.h"
#include "strata/checkpoint/window_buffers.h"

namespace strata {

/// One window of a file, as its hash was taken of it.
struct HashedWindow {
  Window bytes;
  std::uint64_t hash = 0;
};
/// Returns all windows of a file, by begin; they cover it.
[[nodiscard]] std::vector<HashedWindow> hashed_windows(const ManifestFile& file);

/// Reads a window and throws DamagedFile that names `path` if it is not what was hashed.
void read_verified(const FileReader& in, const std::filesystem::path& path,
                   const HashedWindow& window, std::span<std::byte> out);

/// A file that is read from its beginning to its end, each window once. It holds one buffer, and
/// belongs to one thread.
class VerifiedFile {
 public:
  /// Opens `checkpoint` / `file`.path. `buffers` have kHashWindow bytes each.
  VerifiedFile(const Files& files, const std::filesystem::path& checkpoint,
               const ManifestFile& file, WindowBuffers& buffers);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Returns the bytes from `offset` to the end of the window that it lies in, until the next call.
  /// Throws DamagedFile if they are not what was hashed, or behind the end of the file.
  [[nodiscard]] std::span<const std::byte> from(std::uint64_t offset);

 private:
  std::filesystem::path path_;
  std::unique_ptr<FileReader> in_;
  std::vector<HashedWindow> windows_;
  WindowBuffers::Lease buffer_;
  std::optional<std::size_t> held_;  ///< the window that is in the buffer
};

}  // namespace strata
