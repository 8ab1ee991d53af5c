// The messages of a run that does not fit. They say what it needs, who set the limit and which keys
// to turn, and end with the whole plan.

#include "plan/require_fit.h"

#include <optional>
#include <string>

#include "strata/base/bytes.h"
#include "strata/base/error.h"

namespace strata {

namespace {

/// Returns what to do about cells that were told to keep more than there is room for.
std::string advice_on_kept(const PlanInputs& in) {
  const std::optional<KeepLevel> level = in.given.schedule.activations;
  if (!level || level == KeepLevel::kRecompute) return {};
  return "schedule.activations is \"" + std::string(name_of(*level)) +
         "\"; \"auto\" keeps only what fits. ";
}

/// Returns likewise what to do about cells that were told to spill.
std::string advice_on_spills(const PlanInputs& in) {
  const std::optional<KeepLevel> level = in.choices.spill;
  if (!level || level == KeepLevel::kRecompute) return {};
  return "schedule.spill is \"" + std::string(name_of(*level)) +
         "\"; \"auto\" spills only what fits, \"off\" nothing. ";
}

}  // namespace

void require_fit(const Setup& s, const PlanInputs& in) {
  if (!in.room.fits_device(s.use())) {
    throw OutOfMemory(
        "the run needs " + format_bytes(s.device_bytes()) + " on the device, the limit is " +
        format_bytes(*s.budget.device_limit) + " (" + s.budget.device_limit_origin + "). " +
        advice_on_kept(in) +
        "Lower schedule.rows, schedule.sub_batches (raise schedule.passes "
        "instead), schedule.activation_slots, schedule.weight_slots, "
        "schedule.gradient_slots, schedule.resident_units or schedule.head_chunk_tokens, or raise "
        "the limit.\n" +
        s.to_string());
  }
  if (!in.room.fits_host(s.use())) {
    throw OutOfMemory(
        "the run needs " + format_bytes(s.host_bytes()) + " on the host, the limit is " +
        format_bytes(*s.budget.host_limit) + " (" + s.budget.host_limit_origin + "). " +
        (s.budget.device_is_host ? advice_on_kept(in) : std::string()) + advice_on_spills(in) +
        "Use optimizer.gradient_dtype = bf16 and optimizer.moment_dtype = bf16, an "
        "optimizer.gradient_ring (with optimizer.timing = on_arrival), lower schedule.sub_batches, "
        "optimizer.undo_log, raise schedule.resident_units, use more ranks, or "
        "raise the limit.\n" +
        s.to_string());
  }
}

}  // namespace strata
