#include "plan/activation_plan.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/base/narrow.h"
#include "strata/optimizer/state_shuttle.h"

namespace strata {

namespace {

/// Of the device's peak that products and attention reach, and of the link's time under compute
/// that spills may fill: the rest is for what is not in the model.
constexpr double kComputeShare = 0.65;
constexpr double kLinkShare = 0.8;

/// What cells may spill: the tensors above the level `from`, which they keep, up to `to`.
struct SpillRange {
  KeepLevel from = KeepLevel::kRecompute;
  KeepLevel to = KeepLevel::kRecompute;
};

class ActivationPlanner {
 public:
  ActivationPlanner(const Setup& base, const PlanInputs& in)
      : base_(base),
        choices_(in.choices),
        room_(in.room),
        schedule_(in.given.schedule),
        hardware_(in.given.hardware),
        tensors_(base.kept_tensors()),
        cells_(static_cast<std::size_t>(base.activations.layers * base.activations.cells)) {}

  [[nodiscard]] Setup choose() const {
    std::optional<Setup> best;
    for (const int slots : slot_choices()) {
      const Setup s = with_slots(slots);
      for (const SpillRange& range : spill_choices(s)) {
        Setup choice = s;
        if (choose_kept(choice, range) && (!best || cost(choice) < cost(*best))) {
          best = std::move(choice);
        }
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

  static void add_scratch(Setup& s) {
    s.sizes.kept_by_all = s.kept.least_reach();
    for (const LedgerEntry& entry : Llama::scratch_ledger(s.model, s.sizes)) {
      s.plan.allocate(Space::kDevice, entry.name, entry.bytes);
    }
  }

  /// All that are worth a look.
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

  /// Beside everything else, and what the config says that cells keep.
  [[nodiscard]] int slots_that_fit() const {
    const ActivationShape& shape = base_.activations;
    const std::size_t slot = round_up(shape.cell_bytes(), Arena::kAlignment);
    Setup s = base_;
    s.kept = named_plan(schedule_.activations.value_or(KeepLevel::kRecompute));
    add_scratch(s);
    KeptStore::Memory(tensors_, s.kept, s.plan);
    const auto fitting = static_cast<std::int64_t>(room_.left_on_device(s.use()) / slot);
    const std::int64_t fewest = std::min(ActivationStore::kFewestSlots, shape.keys());
    return narrow<int>(std::clamp<std::int64_t>(fitting, fewest, shape.keys()));
  }

  /// True if boundaries that would fit on the device may as well go to the host.
  [[nodiscard]] bool may_spill_boundaries() const {
    const Setup s = with_slots(base_.activations.forward_slots());
    return room_.may_spill_boundaries(s.use()) && idle_bytes(s);
  }

  /// What each cell may spill. The first choice is nothing, or what the config names.
  [[nodiscard]] std::vector<SpillRange> spill_choices(const Setup& s) const {
    const std::optional<KeepLevel> named = choices_.spill;
    const bool chosen = !named && !schedule_.activations && room_.left_to_spill(s.use()) > 0;
    if (!named && !chosen) return {{}};
    if (named && (schedule_.activations || *named == KeepLevel::kRecompute)) {
      return {{.from = schedule_.activations.value_or(KeepLevel::kRecompute), .to = *named}};
    }
    std::vector<SpillRange> choices;
    if (chosen) choices.emplace_back();
    const std::optional<std::size_t> idle = idle_bytes(s);
    for (const KeepLevel from : kKeepLevels) {
      for (const KeepLevel to : kKeepLevels) {
        const bool allowed =
            named ? to == *named : from < to && spilled_bytes(tensors_, from, to) <= idle;
        if (allowed) choices.push_back({from, to});
      }
    }
    return choices;
  }

  /// Every cell keeps `level`, and spills what the config names.
  [[nodiscard]] KeepPlan named_plan(KeepLevel level) const {
    KeepPlan kept(base_.activations.layers, base_.activations.cells, level);
    kept.slots = narrow<int>(schedule_.spill_slots);
    const KeepLevel reach = std::max(level, choices_.spill.value_or(KeepLevel::kRecompute));
    std::fill(kept.reach.begin(), kept.reach.end(), reach);
    return kept;
  }

  /// Decides for all cells and adds them to the plan; false if that needs larger slots than the
  /// range says.
  [[nodiscard]] bool choose_kept(Setup& s, const SpillRange& range) const {
    s.kept = named_plan(schedule_.activations.value_or(KeepLevel::kRecompute));
    if (!schedule_.activations) keep_what_fits(s, range);
    if (!choices_.spill) spill_what_fits(s, range);
    for (std::size_t i = 0; i < cells_; ++i) {
      if (s.kept.spills(i) && s.kept.levels[i] < range.from) return false;
    }
    add_scratch(s);
    KeptStore::Memory(tensors_, s.kept, s.plan);
    return true;
  }

  /// Returns the device bytes that what cells keep may take, when everything else has its own.
  [[nodiscard]] std::size_t room_to_keep(Setup s, const SpillRange& range) const {
    add_scratch(s);
    SlotRing(s.plan, Space::kDevice, "kept.slots", std::min(narrow<int>(cells_), s.kept.slots),
             spilled_bytes(tensors_, range.from, range.to));
    return room_.left_to_keep(s.use());
  }

  /// Level by level in order of worth, and in each level the last layers first.
  void keep_what_fits(Setup& s, const SpillRange& range) const {
    KeepPlan& kept = s.kept;
    std::size_t room = room_to_keep(s, range);
    for (std::size_t to = 1; to < std::size(kKeepLevels); ++to) {
      const std::size_t bytes = kept_bytes(tensors_, kKeepLevels[to]);
      // When the last cell keeps a tensor, nobody needs scratch for it.
      const bool all = kept.count(kKeepLevels[to - 1]) == cells_;
      const std::size_t freed = all && kept.least_reach() < kKeepLevels[to] ? bytes : 0;
      if (room > 0 && cells_ * bytes <= room + freed) room += freed;
      for (std::size_t i = cells_; i-- > 0;) {
        if (kept.levels[i] != kKeepLevels[to - 1] || bytes > room) continue;
        kept.levels[i] = kKeepLevels[to];
        kept.reach[i] = std::max(kept.reach[i], kept.levels[i]);
        room -= bytes;
      }
    }
  }

  /// Level by level in order of worth, and in each level the first layers first: they are needed
  /// last.
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

  /// Bytes that the link can take away while a cell of a layer runs forward, and bring back while
  /// it runs backward, beside the boundary and its share of weights and interleaved state; nothing
  /// if these are too many already, or the device's speed is unknown.
  [[nodiscard]] std::optional<std::size_t> idle_bytes(const Setup& s) const {
    const double peak = hardware_.peak_tflops.value_or(s.budget.peak_tflops) * 1e12;
    if (!(peak > 0)) return std::nullopt;
    const LlamaConfig& model = s.model;
    double flops = 2.0 * static_cast<double>(model.hidden_size) *
                   static_cast<double>(model.intermediate_size);  // the down projection
    for (const KeptTensor& tensor : tensors_) flops += tensor.flops_per_token;
    const double forward_s =
        flops * static_cast<double>(s.activations.cell_tokens) / (kComputeShare * peak);
    const double forward_bytes = kLinkShare * forward_s * hardware_.link_gbs * 1e9;
    const bool spilled = s.activations.homes(s.activation_slots) > 0;
    const double boundary = spilled ? static_cast<double>(s.activations.home_bytes()) : 0.0;
    int streamed = 0;  // layers whose weights come
    for (const BlockId b : s.layout.blocks.ids()) {
      const bool layer = s.layout.blocks[b].kind == UnitKind::kLayer;
      streamed += layer && s.state.blocks[b].weight != Home::kDevice ? 1 : 0;
    }
    const Block& layer = s.layout.blocks[s.layout.first_layer_block()];
    const double weights = static_cast<double>(layer.shard_elements(s.state.ranks)) *
                           static_cast<double>(size_of(s.state.compute)) * streamed /
                           static_cast<double>(cells_);
    const double state = static_cast<double>(StateShuttle::step_bytes(s.layout, s.state)) /
                         static_cast<double>(cells_);
    const bool in_backward = s.choices.timing == UpdateTiming::kOnArrival;
    const bool in_forward = !in_backward || s.choices.deferred_units > 0;
    // Backward takes twice as long as forward, and longer where it computes again.
    const double idle = std::min(forward_bytes - (in_forward ? state : 0.0),
                                 2 * forward_bytes - weights - (in_backward ? state : 0.0)) -
                        boundary;
    if (idle < 0) return std::nullopt;
    return static_cast<std::size_t>(idle);
  }

  /// What a choice costs: first bytes beyond the limits, then compute, then bytes on the link.
  [[nodiscard]] std::tuple<std::size_t, double, std::size_t> cost(const Setup& s) const {
    std::size_t bytes = static_cast<std::size_t>(s.activations.homes(s.activation_slots)) *
                        s.activations.home_bytes();
    for (std::size_t i = 0; i < cells_; ++i) {
      bytes += spilled_bytes(tensors_, s.kept.levels[i], s.kept.reach[i]);
    }
    return {room_.beyond_limits(s.use()), s.recompute_flops_per_token(), bytes};
  }

  const Setup& base_;
  const PlanChoices& choices_;
  const Room& room_;
  const ScheduleSection& schedule_;
  const HardwareSection& hardware_;
  std::vector<KeptTensor> tensors_;
  std::size_t cells_;
};

}  // namespace

void plan_activations(Setup& s, const PlanInputs& in) { s = ActivationPlanner(s, in).choose(); }

}  // namespace strata
