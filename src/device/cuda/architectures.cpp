// Reads CMake's list of architectures as the driver reads what was compiled of it.

#include "src/device/cuda/architectures.h"

#include <algorithm>
#include <charconv>

namespace strata::cuda {
namespace {

/// One entry of the list.
struct Entry {
  int architecture = 0;
  bool exact = false;  ///< has a letter: its code runs on this capability alone, and so its PTX
  bool code = true;
  bool ptx = true;
};

Entry parse(std::string_view text) {
  Entry entry;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), entry.architecture);
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  entry.exact = !rest.empty() && rest.front() != '-';
  entry.ptx = !rest.ends_with("-real");
  entry.code = !rest.ends_with("-virtual");
  return entry;
}

bool runs_code(const Entry& entry, int capability) {
  if (!entry.code || entry.exact) return entry.code && entry.architecture == capability;
  return entry.architecture / 10 == capability / 10 && entry.architecture <= capability;
}

bool runs_ptx(const Entry& entry, int capability) {
  if (!entry.ptx || entry.exact) return entry.ptx && entry.architecture == capability;
  return entry.architecture <= capability;
}

}  // namespace

std::optional<GpuCode> code_for(std::string_view architectures, int capability) {
  std::optional<GpuCode> best;
  while (!architectures.empty()) {
    const std::size_t end = std::min(architectures.find_first_of("; "), architectures.size());
    const Entry entry = parse(architectures.substr(0, end));
    architectures.remove_prefix(std::min(end + 1, architectures.size()));
    const bool code = runs_code(entry, capability);
    if (!code && !runs_ptx(entry, capability)) continue;
    const bool better = !best || (best->ptx && code) ||
                        (best->ptx == !code && best->architecture < entry.architecture);
    if (better) best = GpuCode{.architecture = entry.architecture, .ptx = !code};
  }
  return best;
}

std::string refusal(std::string_view gpu, int capability, std::string_view architectures) {
  const std::string text =
      std::string(gpu) + " has compute capability " + capability_text(capability);
  if (capability < kLeastCapability) {
    return text + "; the cuda backend needs " + capability_text(kLeastCapability) +
           " or later: take another GPU, or run.backend = \"cpu\"";
  }
  // The kernels of compute capability 9.0 are compiled for it alone.
  const std::string own = std::to_string(capability) + (capability == 90 ? "a" : "") + "-real";
  return text + ", for which this program has no code (it was built for " +
         std::string(architectures) + "). Build it with 'cmake --preset cuda-release " +
         "-DSTRATA_CUDA_ARCHITECTURES=" + own + "' and 'cmake --build --preset cuda-release', or " +
         "for all GPUs with the preset cuda-all";
}

std::string capability_text(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

}  // namespace strata::cuda
