// Decides what cells keep and spill. It lists ways to share what is left between boundaries, what
// cells keep and what they spill, fills each of them cell by cell, and takes the first by the
// rule's order.

#include "plan/activation_plan.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/idle_link.h"
#include "strata/base/bytes.h"
#include "strata/base/narrow.h"

namespace strata {

namespace {

/// What each cell may spill: the tensors above the level `from`, which they keep, up to `to`.
struct SpillRange {
  KeepLevel from = KeepLevel::kRecompute;
  KeepLevel to = KeepLevel::kRecompute;
};

class ActivationRule {
 public:
  ActivationRule(const Setup& base, const PlanInputs& in)
      : base_(base),
        choices_(in.choices),
        room_(in.room),
        schedule_(in.given.schedule),
        tensors_(base.kept_tensors()),
        cells_(static_cast<std::size_t>(base.activations.layers * base.activations.cells)) {}

  /// Returns the setup with everything decided.
  [[nodiscard]] Setup choose() const {
    std::optional<Setup> best;
    for (const int slots : slot_choices()) {
      const Setup s = with_slots(slots);
      for (const SpillRange& range : spill_choices(s)) {
        Setup choice = s;
        if (!choose_kept(choice, range)) continue;
        if (!best || order(choice) < order(*best)) best = std::move(choice);
      }
    }
    return *std::move(best);  // spilling nothing, or from the level `recompute` on, is always there
  }

 private:
  [[nodiscard]] Setup with_slots(int slots) const {
    Setup s = base_;
    s.activation_slots = slots;
    ActivationStore::Memory(s.activations, slots, s.plan);
    return s;
  }

  /// Returns all numbers of slots for boundaries that are worth a look.
  [[nodiscard]] std::vector<int> slot_choices() const {
    const ActivationShape& shape = base_.activations;
    const int all = shape.keys();
    if (choices_.activation_slots) return {std::min(all, *choices_.activation_slots)};
    // In int8 a slot is free again when forward has read it.
    if (shape.form == BoundaryForm::kInt8) return {shape.forward_slots()};
    if (!room_.has_device_limit()) return {all};
    const int fitting = slots_that_fit();
    if (schedule_.activations) return {fitting};
    const int forward = shape.forward_slots();
    if (fitting < all) return {std::min(fitting, forward)};
    if (forward < all && may_spill_boundaries()) return {all, forward};
    return {all};
  }

  /// Returns how many slots fit beside everything else and what the config says that cells keep.
  [[nodiscard]] int slots_that_fit() const {
    const ActivationShape& shape = base_.activations;
    const std::size_t slot = round_up(shape.cell_bytes(), Arena::kAlignment);
    Setup s = base_;
    s.kept = named_plan(schedule_.activations.value_or(KeepLevel::kRecompute));
    s.add_scratch();
    KeptStore::Memory(tensors_, s.kept, s.plan);
    const auto fitting = static_cast<std::int64_t>(room_.left_on_device(s.use()) / slot);
    const std::int64_t fewest = std::min(ActivationStore::kFewestSlots, shape.keys());
    return narrow<int>(std::clamp<std::int64_t>(fitting, fewest, shape.keys()));
  }

  /// Returns true if boundaries that would fit on the device may as well go to the host.
  [[nodiscard]] bool may_spill_boundaries() const {
    const Setup s = with_slots(base_.activations.forward_slots());
    return room_.may_spill_boundaries(s.use()) && idle_link_bytes(s);
  }

  /// Returns what each cell may spill. The first of these is nothing, or the level that is named.
  [[nodiscard]] std::vector<SpillRange> spill_choices(const Setup& s) const {
    const std::optional<KeepLevel> named = choices_.spill;
    const bool chosen = !named && !schedule_.activations && room_.left_to_spill(s.use()) > 0;
    if (!named && !chosen) return {{}};
    if (named && (schedule_.activations || *named == KeepLevel::kRecompute)) {
      return {{.from = schedule_.activations.value_or(KeepLevel::kRecompute), .to = *named}};
    }
    std::vector<SpillRange> choices;
    if (chosen) choices.emplace_back();
    const std::optional<std::size_t> idle = idle_link_bytes(s);
    for (const KeepLevel from : kKeepLevels) {
      for (const KeepLevel to : kKeepLevels) {
        const bool allowed =
            named ? to == *named : from < to && spilled_bytes(tensors_, from, to) <= idle;
        if (allowed) choices.push_back({from, to});
      }
    }
    return choices;
  }

  /// Returns the plan in which every cell keeps `level` and spills up to the level that is named.
  [[nodiscard]] KeepPlan named_plan(KeepLevel level) const {
    KeepPlan kept(base_.activations.layers, base_.activations.cells, level);
    kept.slots = narrow<int>(schedule_.spill_slots);
    const KeepLevel reach = std::max(level, choices_.spill.value_or(KeepLevel::kRecompute));
    std::fill(kept.reach.begin(), kept.reach.end(), reach);
    return kept;
  }

  /// Decides for all cells and adds them to the plan. Returns false if that needs larger slots than
  /// the range says.
  [[nodiscard]] bool choose_kept(Setup& s, const SpillRange& range) const {
    s.kept = named_plan(schedule_.activations.value_or(KeepLevel::kRecompute));
    if (!schedule_.activations) keep_what_fits(s, range);
    if (!choices_.spill) spill_what_fits(s, range);
    for (std::size_t i = 0; i < cells_ && range.from > KeepLevel::kRecompute; ++i) {
      if (s.kept.spills(i) && s.kept.levels[i] < range.from) return false;
    }
    s.add_scratch();
    KeptStore::Memory(tensors_, s.kept, s.plan);
    return true;
  }

  /// Returns the device bytes that what cells keep may take, when everything else has its own.
  [[nodiscard]] std::size_t room_to_keep(Setup s, const SpillRange& range) const {
    s.add_scratch();
    SlotRing(s.plan, Space::kDevice, "kept.slots", std::min(narrow<int>(cells_), s.kept.slots),
             spilled_bytes(tensors_, range.from, range.to));
    return room_.left_to_keep(s.use());
  }

  /// Cells keep level by level in order of worth, and in each level the last layers come first.
  void keep_what_fits(Setup& s, const SpillRange& range) const {
    KeepPlan& kept = s.kept;
    std::size_t room = room_to_keep(s, range);
    for (std::size_t to = 1; to < std::size(kKeepLevels); ++to) {
      const std::size_t bytes = kept_bytes(tensors_, kKeepLevels[to]);
      // When the last cell keeps a tensor, nobody needs scratch for it.
      const bool all = std::ranges::all_of(
          kept.levels, [&](KeepLevel level) { return level == kKeepLevels[to - 1]; });
      const std::size_t freed = all && kept.least_reach() < kKeepLevels[to] ? bytes : 0;
      if (room > 0 && cells_ * bytes <= room + freed) room += freed;
      for (std::size_t i = cells_; i-- > 0 && bytes <= room;) {
        if (kept.levels[i] != kKeepLevels[to - 1]) continue;
        kept.levels[i] = kKeepLevels[to];
        kept.reach[i] = std::max(kept.reach[i], kept.levels[i]);
        room -= bytes;
      }
    }
  }

  /// Cells spill level by level in order of worth, and in each level the first layers come first:
  /// they are needed last.
  void spill_what_fits(Setup& s, const SpillRange& range) const {
    KeepPlan& kept = s.kept;
    std::size_t room = room_.left_to_spill(s.use());
    for (std::size_t to = 1; to < std::size(kKeepLevels) && kKeepLevels[to] <= range.to; ++to) {
      const std::size_t bytes = kept_bytes(tensors_, kKeepLevels[to]);
      for (std::size_t i = 0; i < cells_; ++i) {
        if (kept.levels[i] < range.from || kept.reach[i] != kKeepLevels[to - 1]) continue;
        if (bytes > room) return;
        kept.reach[i] = kKeepLevels[to];
        room -= bytes;
      }
    }
  }

  /// Returns the place of a way in the rule's order, the least first: bytes beyond the limits come
  /// before compute, and compute before bytes on the link.
  [[nodiscard]] std::tuple<std::size_t, double, std::size_t> order(const Setup& s) const {
    return {room_.beyond_limits(s.use()), s.recompute_flops_per_token(), s.spilled_bytes()};
  }

  const Setup& base_;  ///< all but activations and scratch
  const PlanChoices& choices_;
  const Room& room_;
  const ScheduleSection& schedule_;
  std::vector<KeptTensor> tensors_;
  std::size_t cells_;
};

}  // namespace

void plan_activations(Setup& s, const PlanInputs& in) { s = ActivationRule(s, in).choose(); }

}  // namespace strata
