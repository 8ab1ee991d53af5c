// Reads the manifest of a checkpoint's folder and looks at the files that it names, without reading
// them: that a file is missing or cut is known at once, what is in it once it is read.

#include <algorithm>
#include <memory>
#include <string>

#include "checkpoint/verified_file.h"
#include "strata/base/error.h"
#include "strata/checkpoint/manifest.h"

namespace strata {

Manifest read_manifest(const Files& files, const std::filesystem::path& checkpoint) {
  const std::filesystem::path path = checkpoint / kManifestName;
  if (files.kind(path) == Files::Kind::kNothing) {
    throw DamagedFile(checkpoint.string() + ": is no checkpoint: it has no " +
                      std::string(kManifestName));
  }
  Manifest manifest = Manifest::parse(read_whole(files, path, kMostManifestBytes), path);
  for (const ManifestFile& file : manifest.files) {
    const std::filesystem::path part = checkpoint / file.path;
    if (files.kind(part) == Files::Kind::kNothing) {
      throw DamagedFile(part.string() + ": is missing, but " + path.string() + " names it");
    }
    if (const std::uint64_t found = files.open(part)->bytes(); found != file.bytes) {
      throw DamagedFile(part.string() + ": has " + std::to_string(found) + " bytes, but " +
                        path.string() + " says " + std::to_string(file.bytes));
    }
  }
  return manifest;
}

std::optional<std::string> read_small_file(const Files& files,
                                           const std::filesystem::path& checkpoint,
                                           const Manifest& manifest, std::string_view path,
                                           std::size_t most_bytes) {
  const auto file = std::ranges::find(manifest.files, path, &ManifestFile::path);
  if (file == manifest.files.end()) return std::nullopt;
  const std::filesystem::path name = checkpoint / file->path;
  if (file->bytes > most_bytes) {
    throw DamagedFile(name.string() + ": has " + std::to_string(file->bytes) +
                      " bytes, more than " + std::to_string(most_bytes));
  }
  std::string text(static_cast<std::size_t>(file->bytes), '\0');
  const std::unique_ptr<FileReader> in = files.open(name);
  for (const HashedWindow& window : hashed_windows(*file)) {
    const std::size_t begin = static_cast<std::size_t>(window.bytes.begin);
    const std::size_t count = static_cast<std::size_t>(window.bytes.end) - begin;
    read_verified(*in, name, window, std::as_writable_bytes(std::span(text)).subspan(begin, count));
  }
  return text;
}

}  // namespace strata
