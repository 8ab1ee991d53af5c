#pragma once

#include <algorithm>
#include <cstddef>

#include "strata/base/bytes.h"
#include "strata/device/stream.h"

namespace strata {

/// Large transfers go in pieces of this size: full link speed from 16 MiB on, and nothing waits
/// long behind one piece.
inline constexpr std::size_t kChunkBytes = 32 * kMiB;

/// Stream::copy in pieces.
inline void copy_in_chunks(Stream& stream, std::byte* to, const std::byte* from, std::size_t bytes,
                           const Tag& tag) {
  for (std::size_t done = 0; done < bytes; done += kChunkBytes) {
    stream.copy(to + done, from + done, std::min(kChunkBytes, bytes - done), tag);
  }
}

}  // namespace strata
