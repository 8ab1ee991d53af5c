// Calls NVTX, whose domain is null unless a tool listens. The text of a range is built only then.

#include "src/device/cuda/profiler.h"

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCudaRt.h>

#include <cstdint>
#include <string>

#include "src/device/trace_impl.h"

namespace strata::cuda {
namespace {

/// Category 0 means "none" to NVTX.
std::uint32_t category(Lane lane) { return static_cast<std::uint32_t>(lane) + 1; }

std::string lane_name(Lane lane) { return std::string(name_of(lane)); }

}  // namespace

Profiler::Profiler() : domain_(nvtxDomainCreateA("strata")) {
  if (!attached()) return;
  for (int i = 0; i < kLaneCount; ++i) {
    const auto lane = static_cast<Lane>(i);
    nvtxDomainNameCategoryA(domain_, category(lane), lane_name(lane).c_str());
  }
}

Profiler::~Profiler() {
  if (attached()) nvtxDomainDestroy(domain_);
}

void Profiler::name_stream(cudaStream_t stream, Lane lane) const {
  if (attached()) nvtxNameCudaStreamA(stream, lane_name(lane).c_str());
}

ProfilerRange::ProfilerRange(const Profiler& profiler, Lane lane, std::string_view name,
                             const Tag& tag)
    : profiler_(profiler) {
  if (!profiler_.attached()) return;
  const std::string text = std::string(name) + text_of(tag);
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.category = category(lane);
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = text.c_str();
  nvtxDomainRangePushEx(profiler_.domain_, &attributes);
}

ProfilerRange::~ProfilerRange() {
  if (profiler_.attached()) nvtxDomainRangePop(profiler_.domain_);
}

}  // namespace strata::cuda
