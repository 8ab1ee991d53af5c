// A training loop in miniature on bare lanes, with every kind of wait in it. Tests of executions,
// traces and races run it and compare its weights with those of plain loops.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "strata/device/arena.h"
#include "strata/device/device.h"
#include "strata/device/slot_ring.h"

namespace strata::test {

/// A training loop in miniature that needs every kind of wait: weights of a unit are loaded through
/// a ring of two slots, a gradient is computed, scaled in place by what the host decided, copied
/// out and applied on the host. After the second step the weights are saved while the next step
/// goes on.
class Pipeline {
 public:
  static constexpr int kUnits = 4;
  static constexpr int kSavedSteps = 2;
  static constexpr std::size_t kElements = 32;

  explicit Pipeline(Device& device);
  /// Submits `steps` steps without waiting for anything.
  void submit(int steps);
  /// Waits for everything; all units' weights.
  [[nodiscard]] std::vector<double> weights();
  /// Likewise what was saved: all units' weights after kSavedSteps, or zeros if there were fewer.
  [[nodiscard]] std::vector<double> saved();

 private:
  static constexpr std::size_t kBytes = kElements * sizeof(double);
  static constexpr std::size_t kBuffers = 2;

  void unit_step(int step, int unit);
  void save(int unit);
  std::vector<double> read(const std::array<std::byte*, kUnits>& buffers);
  Lease load(int step, int unit);

  Device& device_;
  Arena device_arena_;
  Arena host_arena_;
  SlotRing ring_;
  std::array<std::byte*, kBuffers> gradients_{};  // on the device
  std::array<std::byte*, kBuffers> arrived_{};    // on the host
  std::array<std::byte*, kUnits> weights_{};      // on the host
  std::array<std::byte*, kUnits> files_{};        // what is saved; on the host
  std::byte* factor_ = nullptr;                   // on the host
  Event decided_;                                 // factor_ is there
  std::array<Event, kUnits> updated_{};
  std::array<Event, kUnits> saved_{};    // weights_ may be changed
  std::array<Event, kBuffers> sent_{};   // gradients_ may be written again
  std::array<Event, kBuffers> taken_{};  // arrived_ may be written again
};

/// The same numbers from plain loops.
[[nodiscard]] std::vector<double> pipeline_reference(int steps);

}  // namespace strata::test
