// Tries whether checkpoints can be written to a folder.

#pragma once

#include <filesystem>

#include "doctor/machine_facts.h"
#include "strata/checkpoint/disk_probe.h"
#include "strata/checkpoint/files.h"

namespace strata {

/// Writes a scratch file to the folder and removes it. A folder that is not there yet is looked for
/// above, since runs make it. Blocks for as long as probe_disk() does; throws nothing.
[[nodiscard]] FolderFacts read_folder(Files& files, const std::filesystem::path& folder,
                                      const ProbeSize& size);

}  // namespace strata
