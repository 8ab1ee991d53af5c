// The size of the pieces in which stores send what is long. Stores and the training state cut by
// it, so that no copy of hundreds of MiB holds up a lane that somebody else needs.

#pragma once

#include <algorithm>
#include <cstddef>

#include "strata/base/bytes.h"
#include "strata/device/stream.h"

namespace strata {

/// The size of a piece. A link has its full speed from 16 MiB on, and nothing waits long for one
/// piece of 32 MiB.
inline constexpr std::size_t kChunkBytes = 32 * kMiB;

/// Copies `bytes` on `stream`, as one submission for each piece. Does not block, and throws like
/// Stream::copy.
inline void copy_in_chunks(Stream& stream, std::byte* to, const std::byte* from, std::size_t bytes,
                           const Tag& tag) {
  for (std::size_t done = 0; done < bytes; done += kChunkBytes) {
    stream.copy(to + done, from + done, std::min(kChunkBytes, bytes - done), tag);
  }
}

}  // namespace strata
