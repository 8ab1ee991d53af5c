// Which family of kernels computes an attention operator; attention.cuh says what they are, and
// attention.cu asks for every launch. It is plain C++, so that a test asks without a GPU.

#pragma once

#include <cstdint>

#include "strata/ops/attention.h"
#include "strata/ops/backend.h"

namespace strata::cuda {

enum class AttentionFamily : std::uint8_t { kCudnn, kReference, kDecode, kHopper, kPortable };

/// The most entries of a table that the sm_90a kernels find tiles by.
inline constexpr std::int64_t kMostHopperSegments = 32 * 1024;
/// The most queries of a table, so that a segment has less than 2^16 tiles of 64 queries or more.
inline constexpr std::int64_t kMostHopperTableRows = 64 * 0xffff;

/// What choosing looks at.
struct AttentionNeeds {
  AttentionKernels kernels = AttentionKernels::kAuto;  ///< what the config says
  bool hopper = false;  ///< the sm_90a kernels may run here, and take dtype, head dim and rows
  bool tensor_cores = false;  ///< the portable kernels on tensor cores take them
  bool parts = false;         ///< AttentionForward::parts are given, and suit them too
  std::int64_t queries = 0;   ///< rows of q
  bool windowed = false;      ///< there is a window
  bool capped = false;        ///< scores are capped
};

[[nodiscard]] inline AttentionFamily family_of(const AttentionNeeds& needs,
                                               const AttentionSegments& segments) {
  const bool whole_rows = segments.uniform_length > 0;
  // The library takes whole rows alone, without a window or a cap. What has others, as the samples
  // of a run, goes on without.
  const bool plain = !needs.windowed && !needs.capped;
  if (needs.kernels == AttentionKernels::kCudnn && whole_rows && plain) {
    return AttentionFamily::kCudnn;
  }
  // The bits of a query over a cache must not depend on the tile that it falls in.
  const bool self = whole_rows || segments.self_attention;
  const bool fits = whole_rows || (segments.table.rows() <= kMostHopperSegments &&
                                   needs.queries <= kMostHopperTableRows);
  const bool hopper = needs.hopper && needs.kernels != AttentionKernels::kPortable && !needs.capped;
  if (hopper && self && fits && !needs.parts) return AttentionFamily::kHopper;
  if (!needs.tensor_cores) return AttentionFamily::kReference;
  return needs.parts ? AttentionFamily::kDecode : AttentionFamily::kPortable;
}

}  // namespace strata::cuda
