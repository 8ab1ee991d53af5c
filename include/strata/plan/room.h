// How much memory a plan leaves, and what the planner may do with it of its own choice. Every rule
// that asks whether something fits, whether cells may spill or how far the host may be filled asks
// a Room, so that the answers cannot differ. It compares numbers; it never reads the machine.

#pragma once

#include <cstddef>

#include "strata/config/config.h"
#include "strata/plan/budget.h"

namespace strata {

/// What a plan takes of both memories in bytes, programs and libraries included. On the cpu
/// backend, where device memory is host memory, the host's share contains the device's.
struct MemoryUse {
  std::size_t device_bytes = 0;
  std::size_t host_bytes = 0;
};

/// The limits of a budget, and what a plan leaves of them. It refers to the budget, which must
/// outlive it.
class Room {
 public:
  /// `given` is the config's section: what the user named means more than what was measured.
  Room(const Budget& budget, const MemorySection& given) : budget_(budget), given_(given) {}

  /// Returns true if the plan stays within the limit, or there is none.
  [[nodiscard]] bool fits_device(const MemoryUse& use) const;
  [[nodiscard]] bool fits_host(const MemoryUse& use) const;
  /// Returns the bytes that the plan takes beyond both limits together.
  [[nodiscard]] std::size_t beyond_limits(const MemoryUse& use) const;

  /// Returns true if somebody says how much the device holds.
  [[nodiscard]] bool has_device_limit() const { return budget_.device_limit.has_value(); }
  /// Returns true if the planner may move to the device, by choice, what could stay on the host:
  /// its limit is known, and it has memory of its own.
  [[nodiscard]] bool may_fill_device() const {
    return has_device_limit() && !budget_.device_is_host;
  }
  /// Returns the bytes that the plan leaves of the device, or the largest number without a limit.
  [[nodiscard]] std::size_t left_on_device(const MemoryUse& use) const;
  /// Returns the device bytes that what cells keep may take. Without a limit they may take none: on
  /// the cpu they would be the host's, unless its limit was named, and no GPU is planned without
  /// one.
  [[nodiscard]] std::size_t left_to_keep(const MemoryUse& use) const;

  /// Returns true if the plan takes no more of the host than the planner fills by choice: all of
  /// its limit but a sixteenth.
  [[nodiscard]] bool keeps_host_reserve(const MemoryUse& use) const;
  /// Returns true if boundaries may go to the host by choice, and this plan leaves its reserve.
  [[nodiscard]] bool may_spill_boundaries(const MemoryUse& use) const;
  /// Returns true if what cells keep may go to the host by choice: somebody says how much the
  /// device holds, and how much the host, or memory.spill_limit, may take.
  [[nodiscard]] bool may_spill_cells() const;
  /// Returns the host bytes that cells may still spill by choice, 0 if they may not spill.
  [[nodiscard]] std::size_t left_to_spill(const MemoryUse& use) const;
  /// Returns the host bytes that may still stage state for checkpoints, 0 without a limit.
  [[nodiscard]] std::size_t left_to_stage(const MemoryUse& use) const;
  /// Returns true if a plan of which `spilled` bytes are what cells spill is one that left_to_spill
  /// would have allowed.
  [[nodiscard]] bool allows_spills(const MemoryUse& use, std::size_t spilled) const;

 private:
  [[nodiscard]] std::size_t usable_host() const;

  const Budget& budget_;
  const MemorySection& given_;
};

}  // namespace strata
