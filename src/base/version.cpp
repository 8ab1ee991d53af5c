// Puts what the build knows of the program into words; build_info itself is in a generated source.

#include "strata/base/version.h"

#include <string>

namespace strata {

std::string version_text(const BuildInfo& info) {
  return std::string(info.version) + " (" + std::string(info.commit) + ")";
}

std::string describe(const BuildInfo& info, std::string_view parquet) {
  std::string text = "strata " + std::string(info.version);
  const auto add = [&](std::string_view word, std::string_view value) {
    constexpr std::size_t kColumn = 19;
    text += "\n" + std::string(word) + std::string(kColumn - word.size(), ' ') + std::string(value);
  };
  add("commit", info.commit);
  add("compiler", info.compiler);
  add("backends", info.backends);
  add("GPU architectures", info.gpu_architectures);
  add("MPI", info.mpi);
  add("cuDNN", info.cudnn);
  add("Parquet", parquet);
  return text;
}

}  // namespace strata
