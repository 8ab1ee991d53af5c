// How lanes of the cpu backend execute, in the words of the config.
#pragma once

#include <cstdint>

namespace strata {

/// How the lanes of the cpu backend execute. The numbers of a run do not depend on it.
enum class Execution : std::uint8_t {
  kEager,     ///< inside the submitting call
  kThreads,   ///< one thread per lane
  kShuffled,  ///< one thread takes ready work of random lanes (seeded); finds missing waits
};

}  // namespace strata
