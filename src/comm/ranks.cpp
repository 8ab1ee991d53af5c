// What all groups of ranks have in common. Whoever may fail alone calls any_failed, so that all
// ranks go on or none does.
#include "strata/comm/ranks.h"

#include <unistd.h>

#include <array>
#include <cstdlib>

namespace strata {

std::string this_host() {
  if (const char* id = std::getenv("STRATA_HOSTID")) return id;
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

std::string Ranks::host() const { return this_host(); }

bool Ranks::any_failed(bool failed, Channel channel) {
  std::array<double, 1> failures{failed ? 1.0 : 0.0};
  all_reduce_sum(failures, channel);
  return failures[0] > 0.0;
}

}  // namespace strata
