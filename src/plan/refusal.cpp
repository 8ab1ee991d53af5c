// Words what a user is told whose run does not fit. Tries the changes that a user could make, as
// assignments like those of --set. All are planned with a limit that nothing fits in: else the
// planner would fill with activations what a change has saved, and no saving would show.

#include "plan/refusal.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "plan/fitting_changes.h"
#include "plan/require_fit.h"
#include "strata/base/bytes.h"
#include "strata/config/assignments.h"

namespace strata {

namespace {

/// Assignments that belong together.
using Change = std::vector<std::string>;

std::string assign(const std::string& key, std::int64_t value) {
  return key + "=" + std::to_string(value);
}

/// Halves what a sub-batch or a pass is, so that a step has as many tokens as before.
std::vector<Change> smaller_shapes(const ScheduleSection& s) {
  std::vector<Change> changes;
  if (s.rows % 2 == 0) {
    changes.push_back(
        {assign("schedule.rows", s.rows / 2), assign("schedule.sub_batches", 2 * s.sub_batches)});
  }
  if (s.sub_batches % 2 == 0) {
    changes.push_back({assign("schedule.sub_batches", s.sub_batches / 2),
                       assign("schedule.passes", 2 * s.passes)});
  }
  return changes;
}

/// Lists what may save memory. Some may not be allowed with the rest of the config, or save
/// nothing: that comes out when they are tried.
std::vector<Change> changes_to(const RunConfig& given, const Setup& s) {
  std::vector<Change> changes = smaller_shapes(given.schedule);
  changes.push_back({"schedule.activations=auto"});
  changes.push_back({"schedule.spill=auto"});
  changes.push_back({"schedule.spill_dtype=int8"});
  changes.push_back({"schedule.activation_slots=null"});
  changes.push_back({"schedule.resident_units=null"});
  changes.push_back({"schedule.gradient_sums=host"});
  changes.push_back({"schedule.gradient_slots=1"});
  if (s.weight_slots > 2) changes.push_back({"schedule.weight_slots=2"});
  if (s.sizes.head_chunk >= 4) {
    changes.push_back({assign("schedule.head_chunk_tokens", s.sizes.head_chunk / 4)});
  }
  changes.push_back({"optimizer.gradient_dtype=bf16"});
  changes.push_back({"optimizer.moment_dtype=bf16"});
  changes.push_back({"optimizer.moment_dtype=8bit"});
  changes.push_back(
      {"optimizer.timing=on_arrival", "optimizer.deferred_units=0", "optimizer.gradient_ring=3"});
  changes.push_back({"optimizer.undo_log=null"});
  changes.push_back({"optimizer.interleave=null"});
  return changes;
}

struct Saving {
  Change change;
  std::size_t bytes = 0;
};

/// Returns what the changes save of the memory that binds, the largest first. What only moves to
/// the other memory, and finds no room there, is no saving.
std::vector<Saving> savings(const RunConfig& given, const Setup& refused,
                            const PlannedRank& planned) {
  const bool device = shortage_of(refused) == Shortage::kDevice;
  const Room room(planned.budget, given.memory);
  PlannedRank tight = planned;
  (device ? tight.budget.device_limit : tight.budget.host_limit) = 1;
  const auto use_of = [&](const RunConfig& config) {
    return plan_setup(config, choices_by_rule(config), tight).use();
  };
  const auto binding = [&](const MemoryUse& use) {
    return device ? use.device_bytes : use.host_bytes;
  };
  const auto other_fits = [&](const MemoryUse& use) {
    return device ? room.fits_host(use) : room.fits_device(use);
  };
  const MemoryUse before = use_of(given);
  std::vector<Saving> found;
  for (Change& change : changes_to(given, refused)) {
    const std::optional<RunConfig> config = with_assignments(given, change);
    if (!config) continue;
    const MemoryUse after = use_of(*config);
    if (binding(after) >= binding(before) || (other_fits(before) && !other_fits(after))) continue;
    found.push_back({std::move(change), binding(before) - binding(after)});
  }
  std::ranges::stable_sort(found, std::ranges::greater{}, &Saving::bytes);
  return found;
}

std::string to_string(const Saving& saving) {
  std::string text;
  for (const std::string& set : saving.change) text += (text.empty() ? "" : " with ") + set;
  return "  " + text + " saves " + format_bytes(saving.bytes) + "\n";
}

}  // namespace

std::string shortage_sentences(const RunConfig& given, const Setup& refused,
                               const PlannedRank& planned) {
  const int units = refused.choices.resident_units;
  if (given.schedule.resident_units || units == 0 || !refused.budget.host_limit) {
    return shortage_text(refused) + ".";
  }
  RunConfig on_host = given;
  on_host.schedule.resident_units = 0;
  return host_need_text(plan_setup(on_host, choices_by_rule(on_host), planned)) + ". With " +
         std::to_string(units) + " units on the device for whose state the host has no room, " +
         shortage_text(refused) + ".";
}

std::string refusal(const RunConfig& given, const PlannedRank& planned) {
  constexpr std::size_t kMostLines = 4;
  const Setup refused = plan_setup(given, choices_by_rule(given), planned);
  if (shortage_of(refused) == Shortage::kSamples) return shortage_text(refused);
  std::vector<Saving> found = savings(given, refused, planned);
  found.resize(std::min(found.size(), kMostLines));
  const std::string fitting = fitting_text(given, planned);
  std::string text = shortage_sentences(given, refused, planned) + fitting;
  if (found.empty() && !fitting.empty()) return text.substr(0, text.size() - 1);
  if (found.empty())
    return text + " No key saves any of it: take a smaller model, or raise the limit";
  text += fitting.empty() ? " Most is saved by\n" : "By itself most is saved by\n";
  for (const Saving& saving : found) text += to_string(saving);
  if (!fitting.empty()) return text.substr(0, text.size() - 1);
  const std::size_t missing = shortage_of(refused) == Shortage::kDevice
                                  ? refused.device_bytes() - *planned.budget.device_limit
                                  : refused.host_bytes() - *planned.budget.host_limit;
  return text + "Change keys that save " + format_bytes(missing) +
         " together, or raise the limit; strata plan without a limit lists every byte";
}

}  // namespace strata
