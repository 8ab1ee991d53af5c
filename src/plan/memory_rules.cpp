// Decides what lives on the device and what on the host. Each rule tries values and plans all
// memory with each of them, since what one part takes the others have not. Largest values are found
// by bisection: what fits also fits for smaller ones, or is looked for where that holds.

#include "plan/memory_rules.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "plan/activation_plan.h"
#include "strata/base/narrow.h"
#include "strata/predict/trace_memory.h"

namespace strata {

namespace {

/// Plans what is taken of the host's heap: what lanes of host threads have queued (on a GPU only
/// the host lanes are some; the driver's queues belong to its own memory), what filling batches
/// takes, and what is recorded of traced steps.
void plan_heap(const RunConfig& given, Setup& s) {
  const std::size_t lanes = s.budget.device_is_host ? kLaneCount : kHostLaneCount;
  s.plan.add_heap("queues", lanes * kMostQueued * kQueuedBytes);
  const std::size_t loaders = given.data.validation.empty() ? 1 : 2;
  s.plan.add_heap("batch.scratch",
                  loaders * BatchLoader::scratch_bytes(s.batch.batch, s.batch.mask));
  if (given.run.trace_step) s.plan.add_heap("trace", most_trace_records(s) * kTraceRecordBytes);
}

/// Returns the largest number in [least, most] for which `fits` says true, or `least` if there is
/// none. What is likeliest is tried first: nothing more than `least` fits, or everything does.
int largest(int least, int most, const std::function<bool(int)>& fits) {
  if (least >= most || !fits(least + 1)) return least;
  if (fits(most)) return most;
  for (++least, --most; least < most;) {
    const int middle = least + (most - least + 1) / 2;
    if (fits(middle)) {
      least = middle;
    } else {
      most = middle - 1;
    }
  }
  return least;
}

class MemoryRules {
 public:
  MemoryRules(Setup& s, const PlanInputs& in)
      : s_(s), in_(in), units_(narrow<int>(s.model->units.size())) {}

  /// Decides which units stay on the device: as many as the host cannot hold, and more if there is
  /// still room when everything else is on the device.
  void place_state() {
    const std::optional<std::int64_t>& named = in_.given.schedule.resident_units;
    if (named) return place(narrow<int>(*named));
    place(0);
    if (!in_.room.may_fill_device() || s_.choices.muon) return;
    const int least = fewest_residents();
    place(largest(least, units_, [&](int units) {
      place(units);
      return in_.room.fits_device(s_.use()) && all_else_is_on_device();
    }));
  }

  /// Makes an undo log for as many units as the host has memory for beside what a run must have.
  /// What cells spill comes after it.
  void place_undo_log() {
    StateChoices& choices = s_.choices;
    if (choices.timing != UpdateTiming::kSpeculative || choices.undo_log) return;
    const std::vector<BlockId> all =
        speculated_blocks(*s_.model, choices, std::numeric_limits<std::size_t>::max());
    const auto with = [&](int blocks) {
      choices.undo_log = undo_log_bytes(*s_.model, choices, all, static_cast<std::size_t>(blocks));
      place(choices.resident_units);
    };
    with(largest(0, narrow<int>(all.size()), [&](int blocks) {
      with(blocks);
      return in_.room.keeps_host_reserve(s_.use());
    }));
  }

  /// Stages what the host still has memory for, where nobody said how much.
  void place_staging() {
    if (!s_.saves || in_.given.checkpoint.staging) return;
    s_.saves->staging = in_.room.left_to_stage(s_.use());
    StateSaver::Memory::add_staging(*s_.model, s_.state, s_.saves->staging, s_.plan);
  }

 private:
  /// Plans everything but activations and scratch.
  void place_fixed(int resident, int sums) {
    s_.choices.resident_units = resident;
    s_.choices.device_sums = sums;
    s_.list_fixed_memory();
    plan_heap(in_.given, s_);
  }

  void place(int resident, int sums) {
    place_fixed(resident, sums);
    plan_activations(s_, in_);
  }

  /// Plans everything for the first `resident` units on the device. Sums of gradients go there as
  /// far as they leave boundaries their slots, ahead of what cells keep: a host lane that adds them
  /// holds up a step.
  void place(int resident) {
    const GradientSums where = in_.given.schedule.gradient_sums;
    if (where == GradientSums::kDevice) return place(resident, units_);
    place(resident, 0);
    if (where == GradientSums::kHost || !in_.room.may_fill_device()) return;
    if (!in_.room.fits_device(s_.use())) return;
    const auto adds_up = [](const BlockPlan& row) { return row.sums == SumPlace::kHost; };
    if (s_.count_blocks(adds_up) == 0) {  // wherever they were, there are none
      s_.choices.device_sums = units_;
      return;
    }
    const int slots = s_.activation_slots;
    place(resident, largest(resident, units_, [&](int sums) {
            place(resident, sums);
            return in_.room.fits_device(s_.use()) && s_.activation_slots >= slots;
          }));
  }

  /// Returns how many units have to leave the host, or all if it cannot hold the run even so. The
  /// setup is planned without resident units before. Beyond the number at which boundaries have to
  /// make room, those go to the host, which then holds more than with fewer units: so it is first
  /// looked how many it has to be rid of whatever activations do.
  [[nodiscard]] int fewest_residents() {
    if (in_.room.fits_host(s_.use())) return 0;
    const int sums = in_.given.schedule.gradient_sums == GradientSums::kHost ? 0 : units_;
    const int hopeless = largest(0, units_, [&](int units) {
      place_fixed(units, sums);
      return !in_.room.fits_host(s_.use());
    });
    const int least = std::min(hopeless + 1, units_);
    const int too_few = largest(least - 1, units_, [&](int units) {
      place(units);
      return !in_.room.fits_host(s_.use());
    });
    return std::min(too_few + 1, units_);
  }

  [[nodiscard]] bool all_else_is_on_device() const {
    return s_.activation_slots == s_.activations.keys() &&
           s_.kept.count(KeepLevel::kFull) == s_.kept.levels.size() &&
           (s_.choices.passes == 1 || s_.choices.device_sums == units_);
  }

  Setup& s_;
  const PlanInputs& in_;
  int units_;
};

}  // namespace

void plan_memory(Setup& s, const PlanInputs& in) {
  MemoryRules rules(s, in);
  rules.place_state();
  rules.place_undo_log();
  rules.place_staging();
}

}  // namespace strata
