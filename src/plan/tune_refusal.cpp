// Finds the changes with which `tune` would have a candidate that fits. Each change is a search of
// its own by the rules alone: which way of running would then be the fastest. Prices are compared
// with more memory, which changes nothing of the training.

#include "plan/tune_refusal.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "plan/fitting_changes.h"
#include "plan/refusal.h"
#include "plan/require_fit.h"
#include "strata/base/bytes.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/ops/moment_codes.h"

namespace strata {

namespace {

/// A search with something changed.
struct Changed {
  RunConfig base;
  TuneSpace space;
  PlannedRank planned;
};

/// A change that lets something fit, and how fast it is.
struct Relief {
  std::string change;
  std::optional<double> tokens_per_s{};
};

class Reliefs {
 public:
  Reliefs(const RefusedSearch& search, ThreadPool& pool) : search_(search), pool_(pool) {}

  [[nodiscard]] std::vector<Relief> find() {
    more_memory();
    const bool memory_helps = !found_.empty();
    cheaper_state();
    fewer_tokens();
    shorter_rows();
    second_machine();
    const auto speed = [](const Relief& r) { return r.tokens_per_s.value_or(0); };
    const auto first =
        found_.begin() + (memory_helps ? 1 : 0);  // what the others are compared with
    std::ranges::stable_sort(first, found_.end(), std::ranges::greater{}, speed);
    return std::move(found_);
  }

 private:
  [[nodiscard]] Changed unchanged() const {
    return {.base = search_.base, .space = search_.space, .planned = search_.planned};
  }

  [[nodiscard]] bool fits(const Changed& c) const {
    return any_fits(c.base, tune_candidates(c.base, c.space), c.planned, pool_);
  }

  /// Adds a change if something fits with it; returns whether it does.
  bool add(std::string change, const Changed& c) {
    if (!fits(c)) return false;
    Relief relief{.change = std::move(change)};
    std::optional<double> best_s;
    for (const Sketch& s : sketch(c.base, tune_candidates(c.base, c.space), c.planned, pool_)) {
      if (s.times) best_s = std::min(s.times->step_s, best_s.value_or(s.times->step_s));
    }
    const auto rows = static_cast<double>(c.space.step_rows * c.planned.place.world());
    const double tokens = rows * static_cast<double>(c.base.data.sequence_length);
    if (best_s) relief.tokens_per_s = tokens / *best_s;
    found_.push_back(std::move(relief));
    return true;
  }

  /// Adds the least limit of one memory with which something fits, in whole GiB.
  bool more_of(std::optional<std::size_t> Budget::*limit, const char* option) {
    Changed c = unchanged();
    std::optional<std::size_t>& bytes = c.planned.budget.*limit;
    if (!bytes) return false;
    std::size_t too_few = *bytes / kGiB;
    std::size_t enough = std::max<std::size_t>(1, too_few);
    constexpr std::size_t kMostGiB = 1 << 14;
    do {
      enough *= 2;
      bytes = enough * kGiB;
      if (enough > kMostGiB) return false;
    } while (!fits(c));
    while (enough - too_few > 1) {
      const std::size_t middle = too_few + (enough - too_few) / 2;
      bytes = middle * kGiB;
      (fits(c) ? enough : too_few) = middle;
    }
    bytes = enough * kGiB;
    return add(fmt::format("{} {}GiB", option, enough), c);
  }

  void more_memory() {
    if (more_of(&Budget::host_limit, "--host-memory")) return;
    more_of(&Budget::device_limit, "--device-memory");
  }

  /// Adds what takes fewer bytes for each parameter.
  void cheaper_state() {
    const OptimizerSection& o = search_.base.optimizer;
    const bool ring = o.grad_clip && search_.space.timing && search_.space.gradient_ring;
    Changed unclipped = unchanged();
    unclipped.base.optimizer.grad_clip.reset();
    const std::string ring_text = "--grad-clip none (updates need not wait for the norm)";
    const bool moments_fit = smaller_state(unchanged(), "");
    const bool unclipped_fits = ring && add(ring_text, unclipped);
    if (moments_fit || unclipped_fits || !ring) return;
    smaller_state(unclipped, " with " + ring_text);
  }

  /// Adds the widest moments that fit together with a change, of which `with` tells; returns
  /// whether there are any.
  bool smaller_state(Changed c, const std::string& with) {
    if (c.space.moment_dtype) return false;  // they were tried
    for (const DType moment : smaller_moments(search_.base)) {
      c.base.optimizer.moment_dtype = moment;
      const std::string name(moment_name(moment));
      if (add("--allow optimizer.moment_dtype (" + name + " moments)" + with, c)) return true;
    }
    return false;
  }

  void fewer_tokens() {
    const TuneSpace& space = search_.space;
    if (!space.rows && !space.sub_batches && !space.passes) return;
    Changed c = unchanged();
    while (c.space.step_rows % 2 == 0) {
      c.space.step_rows /= 2;
      const std::int64_t tokens =
          c.space.step_rows * c.base.data.sequence_length * c.planned.place.world();
      if (add("--tokens " + std::to_string(tokens), c)) return;
    }
  }

  /// Adds rows of half the length, of which a step has twice as many.
  void shorter_rows() {
    if (!search_.space.sub_batches && !search_.space.passes) return;
    constexpr std::int64_t kShortest = 256;
    Changed c = unchanged();
    while (c.base.data.sequence_length % 2 == 0 && c.base.data.sequence_length / 2 >= kShortest) {
      c.base.data.sequence_length /= 2;
      c.space.step_rows *= 2;
      const std::string length = std::to_string(c.base.data.sequence_length);
      if (add("--sequence-length " + length, c)) return;
    }
  }

  /// Adds a second machine of the kind, with as many tokens in a step.
  void second_machine() {
    if (search_.planned.place.world() > 1 || search_.space.step_rows % 2 != 0) return;
    if (search_.planned.budget.device_is_host) return;
    Changed c = unchanged();
    c.planned.place.ranks = 2;
    c.space.step_rows /= 2;
    add("--ranks 2 --ranks-per-node 1 (a second machine like this one)", c);
  }

  const RefusedSearch& search_;
  ThreadPool& pool_;
  std::vector<Relief> found_;
};

/// Returns "13,304 tokens/s, 2.1 % less".
std::string price_text(const Relief& relief, const Relief& compared) {
  if (!relief.tokens_per_s) return "its speed is not predicted";
  std::string text = format_count(static_cast<std::int64_t>(*relief.tokens_per_s)) + " tokens/s";
  if (&relief == &compared || !compared.tokens_per_s) return text;
  const double more = 100 * (*relief.tokens_per_s / *compared.tokens_per_s - 1);
  return text + fmt::format(", {:.1f} % {}", std::abs(more), more < 0 ? "less" : "more");
}

}  // namespace

std::string tune_refusal(const RefusedSearch& search, ThreadPool& pool) {
  const Sketch& leanest =
      *std::ranges::min_element(search.sketches, {}, [](const Sketch& s) { return s.short_bytes; });
  const RunConfig config = leanest.keys.put_into(search.base);
  const Setup setup = plan_setup(config, choices_by_rule(config), search.planned);
  std::string text =
      fmt::format("none of {} ways to run it fits; in the leanest ", search.candidates.size()) +
      shortage_sentences(config, setup, search.planned) + fitting_text(config, search.planned);
  const std::vector<Relief> found = Reliefs(search, pool).find();
  const bool ends_a_line = text.ends_with('\n');
  if (found.empty()) {
    if (ends_a_line) return text.substr(0, text.size() - 1);
    return text + " No single change that is known here lets it fit: take a smaller model, or a " +
           "machine with more of both memories";
  }
  text += std::string(ends_a_line ? "" : " ") +
          "Each of these would fit, about as fast as is said beside it:\n";
  for (const Relief& relief : found) {
    text += "  " + relief.change + ": " + price_text(relief, found.front()) + "\n";
  }
  text.pop_back();
  return text;
}

}  // namespace strata
