// Reads /proc/self/cgroup, whose lines name one hierarchy each. Version 2 is the line without
// controllers, version 1 has one line per set of controllers; mixed systems have both.

#include "base/control_groups.h"

#include <fstream>
#include <sstream>
#include <string>

namespace strata {

namespace {

/// Returns whether `name` is one of the comma-separated controllers.
bool lists(const std::string& controllers, std::string_view name) {
  std::istringstream list(controllers);
  for (std::string listed; std::getline(list, listed, ',');) {
    if (listed == name) return true;
  }
  return false;
}

}  // namespace

std::vector<std::filesystem::path> control_groups(std::string_view controller,
                                                  const std::filesystem::path& root) {
  std::vector<std::filesystem::path> folders;
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // hierarchy:controllers:path
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && !lists(controllers, controller)) continue;
    std::filesystem::path mount = root / "sys/fs/cgroup";
    if (!unified) mount /= controller;
    std::filesystem::path group = std::filesystem::path(line.substr(second + 1)).relative_path();
    for (; !group.empty(); group = group.parent_path()) folders.push_back(mount / group);
    folders.push_back(mount);
  }
  return folders;
}

}  // namespace strata
