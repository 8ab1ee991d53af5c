// This is the size of the pieces in which stores send what is long. Stores and the training state
// cut by it, so that no copy of hundreds of MiB holds up a lane that somebody else needs.

#pragma once

#include <algorithm>
#include <cstddef>

#include "strata/base/bytes.h"
#include "strata/device/stream.h"

namespace strata {

/// A piece has so many bytes. A link has its full speed from 16 MiB on, and nothing waits long for
/// one piece of 32 MiB.
inline constexpr std::size_t kChunkBytes = 32 * kMiB;

/// Calls `submit(begin, count, tag)` for each chunk of `size` of something that has `all` elements
/// or bytes; the tag says that it is one.
template <class Count, class Submit>
void for_each_chunk(Count all, Count size, const Tag& tag, const Submit& submit) {
  Tag of_chunk = tag;
  for (Count begin = 0; begin < all; begin += size) {
    ++of_chunk.chunk;
    submit(begin, std::min(size, all - begin), of_chunk);
  }
}

/// Copies `bytes` on `stream`, as one submission for each chunk. Does not block, and throws like
/// Stream::copy.
inline void copy_in_chunks(Stream& stream, std::byte* to, const std::byte* from, std::size_t bytes,
                           const Tag& tag, std::size_t chunk_bytes = kChunkBytes) {
  for_each_chunk(bytes, chunk_bytes, tag,
                 [&](std::size_t begin, std::size_t count, const Tag& of_chunk) {
                   stream.copy(to + begin, from + begin, count, of_chunk);
                 });
}

}  // namespace strata
