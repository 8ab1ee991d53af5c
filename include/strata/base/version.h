// Which strata this is, and what was built into it: `strata --version` prints it, a run's metrics
// and the JSON of `bench` carry it. The build writes the source that knows the answers
// (scripts/cmake/StrataVersion.cmake), so that no other source asks what was built.

#pragma once

#include <string>
#include <string_view>

namespace strata {

/// This is what the build knows of the program. All texts are static.
struct BuildInfo {
  std::string_view version;   ///< of CMake's project, such as "0.1.0"
  std::string_view commit;    ///< 12 digits, then "+changes" if there were any; or "unknown"
  std::string_view compiler;  ///< such as "GNU 12.2.0, Release"
  std::string_view backends;  ///< such as "cpu, cuda"
  std::string_view
      gpu_architectures;   ///< as CMake names them, such as "80-real 90a-real"; or "none"
  std::string_view mpi;    ///< its version of the standard, or "none"
  std::string_view cudnn;  ///< its version, or "none"
};

/// Returns what was built.
BuildInfo build_info();

/// Returns "0.1.0 (0123456789ab)", which names the program in one line of a log.
std::string version_text(const BuildInfo& info);

/// Returns what `--version` prints: lines of a word and its value, without a newline at the end.
/// `parquet` says what reads tables: unlike the rest it is found when the program runs.
std::string describe(const BuildInfo& info, std::string_view parquet);

}  // namespace strata
