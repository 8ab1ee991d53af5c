// Computes hashes by xxHash, which no other source sees. Its code is compiled into this file, so
// nothing links its library.

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "strata/checkpoint/manifest.h"

#if XXH_VERSION_NUMBER < 800
#error "XXH3 has its final form since xxHash 0.8.0"
#endif

namespace strata {

std::uint64_t xxh3(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace strata
