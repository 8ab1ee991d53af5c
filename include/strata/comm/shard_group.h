// Which ranks a run shards its state over, in the words of the config.
#pragma once

#include <cstdint>

namespace strata {

/// Who shards the state together.
enum class ShardGroup : std::uint8_t {
  kAll,   ///< all ranks: the least memory
  kNode,  ///< the ranks of a host: weights are gathered within hosts, and only sums of gradients
          ///< go from host to host
};

}  // namespace strata
