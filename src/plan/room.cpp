// Answers what a Room is asked. A limit that is absent stands for as many bytes as there can be, so
// that most answers are one subtraction.

#include "strata/plan/room.h"

#include <algorithm>
#include <limits>

namespace strata {

namespace {

constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max();

/// Returns what `used` leaves of `limit`, 0 if it is more.
std::size_t left(std::size_t limit, std::size_t used) { return limit - std::min(limit, used); }

}  // namespace

bool Room::fits_device(const MemoryUse& use) const {
  return use.device_bytes <= budget_.device_limit.value_or(kAny);
}

bool Room::fits_host(const MemoryUse& use) const {
  return use.host_bytes <= budget_.host_limit.value_or(kAny);
}

std::size_t Room::beyond_limits(const MemoryUse& use) const {
  return left(use.device_bytes, budget_.device_limit.value_or(kAny)) +
         left(use.host_bytes, budget_.host_limit.value_or(kAny));
}

std::size_t Room::left_on_device(const MemoryUse& use) const {
  return budget_.device_limit ? left(*budget_.device_limit, use.device_bytes) : kAny;
}

std::size_t Room::left_to_keep(const MemoryUse& use) const {
  const bool host_counts = budget_.device_is_host && budget_.host_limit;
  if (!has_device_limit() && !(host_counts && given_.host_limit)) return 0;
  const std::size_t device = left_on_device(use);
  return host_counts ? std::min(device, left(*budget_.host_limit, use.host_bytes)) : device;
}

std::size_t Room::usable_host() const {
  if (!budget_.host_limit) return kAny;
  const std::size_t limit = *budget_.host_limit;
  return budget_.device_is_host ? limit : limit - limit / 16;
}

bool Room::keeps_host_reserve(const MemoryUse& use) const {
  return use.host_bytes <= usable_host();
}

bool Room::may_spill_boundaries(const MemoryUse& use) const {
  return may_fill_device() && budget_.host_limit && keeps_host_reserve(use);
}

bool Room::may_spill_cells() const {
  return may_fill_device() && (budget_.host_limit || given_.spill_limit);
}

std::size_t Room::left_to_spill(const MemoryUse& use) const {
  if (!may_spill_cells()) return 0;
  const std::size_t host = budget_.host_limit ? left(usable_host(), use.host_bytes) : kAny;
  return std::min(host, given_.spill_limit ? given_.spill_limit->bytes : kAny);
}

std::size_t Room::left_to_stage(const MemoryUse& use) const {
  return budget_.host_limit ? left(*budget_.host_limit - *budget_.host_limit / 16, use.host_bytes)
                            : 0;
}

bool Room::allows_spills(const MemoryUse& use, std::size_t spilled) const {
  return may_spill_cells() && keeps_host_reserve(use) &&
         (!given_.spill_limit || spilled <= given_.spill_limit->bytes);
}

}  // namespace strata
