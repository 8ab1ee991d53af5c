// Asks a folder's disk, before training starts, whether checkpoints can be written there at all,
// how fast, and how much room there is: a wrong path or a full disk is cheaper to learn of now than
// after the first hours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

#include "strata/base/process.h"
#include "strata/checkpoint/files.h"

namespace strata {

/// What a disk did with a scratch file.
struct DiskProbe {
  double write_gbs = 0;                     ///< GB/s (10^9 bytes), fsync included
  std::optional<std::uint64_t> free_bytes;  ///< absent where the file system does not say
  bool direct = false;                      ///< written past the page cache
};

/// How much a probe takes.
struct ProbeSize {
  std::size_t bytes = std::size_t{64} << 20;
  double seconds = 0.3;  ///< what was not begun by then is not written, nor measured
  int writers = 4;       ///< threads that write at once
  /// Tells seconds that never go back, to any thread.
  std::function<double()> clock = steady_seconds;
};

/// Names of scratch files begin with this; one that is there when no probe runs was left by a
/// crash.
inline constexpr std::string_view kProbePrefix = ".strata-probe-";

/// Writes a scratch file in the folder, synchronises and removes it. Blocks meanwhile; what the
/// disk takes for the fsync comes on top of `seconds`. Throws IoError that names run.output, the
/// folder and the remedy if the folder is none or the disk refuses; the scratch file is removed
/// then, too.
[[nodiscard]] DiskProbe probe_disk(Files& files, const std::filesystem::path& folder,
                                   const ProbeSize& size = {});

}  // namespace strata
