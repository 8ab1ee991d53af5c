// Where the control groups of this process are in the file system, for both versions of Linux's
// control groups. Host memory and usable cores read their limits there; nothing throws if a system
// has none.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace strata {

/// Returns the folders of this process's control group and of all groups above it, innermost first,
/// in both versions' hierarchies that may limit `controller` ("cpu", "memory"). Not every folder
/// need exist: inside a container the group's path may be that of the host, and its files lie at
/// the mount point, which comes last. `root` stands for "/" in tests.
[[nodiscard]] std::vector<std::filesystem::path> control_groups(
    std::string_view controller, const std::filesystem::path& root = "/");

}  // namespace strata
