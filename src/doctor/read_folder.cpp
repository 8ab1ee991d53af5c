// The disk is probed as a run probes it before it trains.

#include "doctor/read_folder.h"

#include <system_error>

#include "strata/base/error.h"

namespace strata {

namespace {

/// Returns the folder, or the nearest one above it that is there.
std::filesystem::path nearest(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::path at = std::filesystem::absolute(folder, error).lexically_normal();
  while (!std::filesystem::exists(at, error) && at.has_relative_path()) at = at.parent_path();
  return at;
}

/// Returns what a probe says without the key of the config that it begins with.
std::string without_key(const std::string& text) {
  constexpr std::string_view kKey = "run.output: ";
  return text.starts_with(kKey) ? text.substr(kKey.size()) : text;
}

}  // namespace

FolderFacts read_folder(Files& files, const std::filesystem::path& folder, const ProbeSize& size) {
  const std::filesystem::path at = nearest(folder);
  FolderFacts facts{.folder = at.string()};
  try {
    facts.free_bytes = files.free_bytes(at);
    const DiskProbe probe = probe_disk(files, at, size);
    facts.free_bytes = probe.free_bytes;
    facts.write_gbs = probe.write_gbs;
  } catch (const IoError& error) {
    facts.problem = without_key(error.what());
  }
  return facts;
}

}  // namespace strata
