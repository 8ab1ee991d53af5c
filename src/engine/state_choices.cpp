// Makes the rows of the table of blocks by the rules of single blocks, with one function for each
// column. Speculative updates come last, since how many fit the undo log depends on all other
// columns.

#include "strata/engine/state_choices.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "strata/base/bytes.h"
#include "strata/device/arena.h"
#include "strata/optimizer/undo_log.h"

namespace strata {

namespace {

class Rows {
 public:
  Rows(const ModelLayout& layout, const StateChoices& choices) : layout_(layout), c_(choices) {}

  [[nodiscard]] BlockPlan row(BlockId b) const {
    if (!layout_.is_trained(b)) return frozen(b);
    BlockPlan row;
    row.updated_by = updated_by(b);
    row.contributions = c_.passes * layout_.gradient_sources(b);
    row.sums = sums(b, row);
    row.weight = row.updated_by == UpdatedBy::kResident ? Home::kDevice : Home::kPinned;
    row.moments = moments(row);
    row.gradient = gradient(b, row);
    row.gradient_dtype = gradient_dtype(row);
    row.updated = updated(b, row);
    return row;
  }

 private:
  /// Returns the row of a block that nobody trains.
  [[nodiscard]] BlockPlan frozen(BlockId b) const {
    return {.weight = is_resident(b) ? Home::kDevice : Home::kPinned,
            .moments = Home::kNone,
            .gradient = Home::kNone,
            .form = layout_.blocks[b].kind == UnitKind::kLayer ? c_.base_form : Form::kPlain,
            .gradient_dtype = gradient_dtype({}),
            .contributions = 0,
            .sums = SumPlace::kNone,
            .updated_by = UpdatedBy::kNobody,
            .updated = UpdateTime::kNever};
  }

  [[nodiscard]] int unit_of(BlockId b) const { return layout_.blocks[b].unit.value(); }
  [[nodiscard]] bool is_resident(BlockId b) const { return unit_of(b) < c_.resident_units; }

  [[nodiscard]] UpdatedBy updated_by(BlockId b) const {
    if (is_resident(b)) return UpdatedBy::kResident;
    if (c_.muon && layout_.blocks[b].kind == UnitKind::kLayer) return UpdatedBy::kMuon;
    return interleaved(b) ? UpdatedBy::kShuttle : UpdatedBy::kHost;
  }

  [[nodiscard]] bool interleaved(BlockId b) const {
    if (layout_.blocks[b].kind != UnitKind::kLayer) return false;
    const int first = std::max(layout_.unit_of_layer(0).value(), c_.resident_units);
    const int i = unit_of(b) - first;
    return std::floor((i + 1) * c_.interleave) > std::floor(i * c_.interleave);
  }

  [[nodiscard]] SumPlace sums(BlockId b, const BlockPlan& row) const {
    if (row.contributions == 1) return SumPlace::kNone;
    const bool on_device = unit_of(b) < c_.device_sums || row.updated_on_device();
    return on_device ? SumPlace::kDevice : SumPlace::kHost;
  }

  [[nodiscard]] static Home moments(const BlockPlan& row) {
    switch (row.updated_by) {
      case UpdatedBy::kResident: return Home::kDevice;
      case UpdatedBy::kShuttle: return Home::kPinned;
      case UpdatedBy::kHost:
      case UpdatedBy::kMuon: return Home::kPageable;
      case UpdatedBy::kNobody: break;
    }
    return Home::kNone;
  }

  /// Layers share a ring of gradients, if there is one, unless they wait on the device for their
  /// state or are summed on the host, which needs a place for the whole step.
  [[nodiscard]] Home gradient(BlockId b, const BlockPlan& row) const {
    const bool shares = c_.gradient_ring > 0 && layout_.blocks[b].kind == UnitKind::kLayer &&
                        row.updated_by != UpdatedBy::kShuttle && row.sums != SumPlace::kHost;
    if (shares) return row.updated_by == UpdatedBy::kResident ? Home::kPassing : Home::kRing;
    return row.updated_on_device() ? Home::kDevice : Home::kPinned;
  }

  /// Sums on the host are kept in f32, whatever they are rounded to afterwards.
  [[nodiscard]] DType gradient_dtype(const BlockPlan& row) const {
    if (c_.compute == DType::kF64) return DType::kF64;
    return row.sums == SumPlace::kHost ? DType::kF32 : c_.gradient;
  }

  /// Resident blocks are never deferred on arrival: the device updates them faster than it reads
  /// them. Updates in which a device lane takes part beside others come before loads, since that
  /// lane would hold up the next forward if it had all of them to do first.
  [[nodiscard]] UpdateTime updated(BlockId b, const BlockPlan& row) const {
    const int units = static_cast<int>(layout_.units.size());
    const bool late = c_.timing != UpdateTiming::kOnArrival ||
                      (is_deferred(unit_of(b), c_.deferred_units, units) &&
                       row.updated_by != UpdatedBy::kResident);
    if (!late) return UpdateTime::kOnArrival;
    const bool before_load =
        row.updated_by == UpdatedBy::kShuttle || row.updated_by == UpdatedBy::kMuon;
    return before_load ? UpdateTime::kBeforeLoad : UpdateTime::kDecided;
  }

  const ModelLayout& layout_;
  const StateChoices& c_;
};

StatePlan without_speculation(const ModelLayout& layout, const StateChoices& choices) {
  StatePlan plan{.compute = choices.compute,
                 .gradient = choices.gradient,
                 .moment = choices.compute == DType::kF64 ? DType::kF64 : choices.moment,
                 .moments = choices.moments,
                 .split = choices.split,
                 .rank = choices.rank,
                 .ranks = choices.ranks,
                 .replica = choices.replica,
                 .replicas = choices.replicas,
                 .gradient_ring = choices.gradient_ring,
                 .chunk_factor = choices.chunk_factor,
                 .blocks = {}};
  const Rows rows(layout, choices);
  for (const BlockId b : layout.blocks.ids()) plan.blocks.push_back(rows.row(b));
  return plan;
}

std::size_t log_bytes(const ModelLayout& layout, const StatePlan& plan, BlockId block) {
  return round_up(UndoLog::slot_bytes(layout, plan, block), Arena::kAlignment);
}

std::vector<BlockId> speculated(const ModelLayout& layout, const StatePlan& plan,
                                const StateChoices& choices, std::size_t bytes) {
  std::vector<BlockId> blocks;
  const auto units = static_cast<int>(layout.units.size());
  for (int i = layout.blocks.last().value(); i >= 0; --i) {
    const BlockId b(i);
    if (plan.blocks[b].updated_by != UpdatedBy::kHost) continue;
    if (is_deferred(layout.blocks[b].unit.value(), choices.deferred_units, units)) continue;
    const std::size_t slot = log_bytes(layout, plan, b);
    if (slot > bytes) continue;
    bytes -= slot;
    blocks.push_back(b);
  }
  return blocks;
}

}  // namespace

bool is_deferred(int unit, int deferred, int units) {
  const int chosen = std::clamp(deferred, 0, units);
  // How many of the first n units: n · chosen / units, rounded, halves downwards.
  const auto among = [&](int n) { return (2 * n * chosen + units - 1) / (2 * units); };
  return among(unit + 1) > among(unit);
}

StatePlan plan_state(const ModelLayout& layout, const StateChoices& choices) {
  StatePlan plan = without_speculation(layout, choices);
  if (choices.timing != UpdateTiming::kSpeculative || !choices.undo_log) return plan;
  for (const BlockId b : speculated(layout, plan, choices, *choices.undo_log)) {
    plan.blocks[b].updated = UpdateTime::kSpeculated;
  }
  return plan;
}

std::vector<BlockId> speculated_blocks(const ModelLayout& layout, const StateChoices& choices,
                                       std::size_t bytes) {
  return speculated(layout, without_speculation(layout, choices), choices, bytes);
}

std::size_t undo_log_bytes(const ModelLayout& layout, const StateChoices& choices,
                           const std::vector<BlockId>& blocks, std::size_t count) {
  const StatePlan plan = without_speculation(layout, choices);
  std::size_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += log_bytes(layout, plan, blocks.at(i));
  return sum;
}

}  // namespace strata
