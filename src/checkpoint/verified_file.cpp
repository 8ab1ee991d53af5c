// Reads windows of files and compares their hashes. A window is hashed where it lies in the buffer
// that it was read to, before anybody sees it.

#include "checkpoint/verified_file.h"

#include <algorithm>
#include <string>

#include "strata/base/error.h"

namespace strata {

std::vector<HashedWindow> hashed_windows(const ManifestFile& file) {
  std::vector<HashedWindow> all;
  for (const SliceHashes& slice : file.slices) {
    const std::vector<Window> windows = cut_windows(slice.begin, slice.end);
    for (std::size_t i = 0; i < windows.size(); ++i) {
      all.push_back({windows[i], slice.windows.at(i)});
    }
  }
  return all;
}

void read_verified(const FileReader& in, const std::filesystem::path& path,
                   const HashedWindow& window, std::span<std::byte> out) {
  in.read(window.bytes.begin, out);
  if (xxh3(out) == window.hash) return;
  throw DamagedFile(path.string() + ": bytes " + std::to_string(window.bytes.begin) + " to " +
                    std::to_string(window.bytes.end) +
                    " are not what the checkpoint's manifest says; the file is damaged (go on from "
                    "another checkpoint)");
}

VerifiedFile::VerifiedFile(const Files& files, const std::filesystem::path& checkpoint,
                           const ManifestFile& file, WindowBuffers& buffers)
    : path_(checkpoint / file.path),
      in_(files.open(path_)),
      windows_(hashed_windows(file)),
      buffer_(buffers) {}

std::span<const std::byte> VerifiedFile::from(std::uint64_t offset) {
  const auto found = std::ranges::upper_bound(
      windows_, offset, {}, [](const HashedWindow& window) { return window.bytes.end; });
  if (found == windows_.end()) {
    throw DamagedFile(path_.string() + ": has no byte " + std::to_string(offset));
  }
  const auto index = static_cast<std::size_t>(found - windows_.begin());
  const Window& window = found->bytes;
  const std::span<std::byte> bytes = buffer_.bytes(window.begin, window.end);
  if (held_ != index) {
    held_.reset();
    read_verified(*in_, path_, *found, bytes);
    held_ = index;
  }
  return bytes.subspan(static_cast<std::size_t>(offset - window.begin));
}

}  // namespace strata
