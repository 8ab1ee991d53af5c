// Reads the manifest of a checkpoint's folder and looks at the files that it names, without reading
// them: that a file is missing or cut is known at once, what is in it once it is read.

#include "strata/base/error.h"
#include "strata/checkpoint/manifest.h"

namespace strata {

Manifest read_manifest(const Files& files, const std::filesystem::path& checkpoint) {
  const std::filesystem::path path = checkpoint / kManifestName;
  if (files.kind(path) == Files::Kind::kNothing) {
    throw IoError(checkpoint.string() + ": is no checkpoint: it has no " +
                  std::string(kManifestName));
  }
  Manifest manifest = Manifest::parse(read_whole(files, path, kMostManifestBytes), path);
  for (const ManifestFile& file : manifest.files) {
    const std::filesystem::path part = checkpoint / file.path;
    if (files.kind(part) == Files::Kind::kNothing) {
      throw IoError(part.string() + ": is missing, but " + path.string() + " names it");
    }
    if (const std::uint64_t found = files.open(part)->bytes(); found != file.bytes) {
      throw IoError(part.string() + ": has " + std::to_string(found) + " bytes, but " +
                    path.string() + " says " + std::to_string(file.bytes));
    }
  }
  return manifest;
}

}  // namespace strata
