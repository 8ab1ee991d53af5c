// Every sequence has a slot with rows for the longest there may be. The last token of a sequence
// goes through no layer: nothing follows it.

#include "strata/complete/scorer.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/text.h"
#include "strata/schedule/sweep_writer.h"

namespace strata {

SweepPlan Scorer::plan_sweep(Slots& slots, std::vector<Sequence*>& scoring) {
  const SweepLayout& setup = engine_.setup();
  SweepWriter writer(engine_.tokens().host(), setup.sizes.cell_tokens, setup.kv);
  auto room = static_cast<std::size_t>(setup.sweep.tokens);
  const auto groups = static_cast<std::size_t>(setup.kv.groups);
  for (std::size_t group = 0; group < groups; ++group) {
    bool begun = false;
    for (std::size_t slot = group; slot < slots.size(); slot += groups) {
      if (!slots[slot]) continue;
      Sequence& sequence = *slots[slot];
      const std::vector<std::int32_t>& ids = sequence.request.ids;
      const std::size_t count = std::min(room, ids.size() - 1 - sequence.done);
      if (count == 0) continue;
      room -= count;
      if (!std::exchange(begun, true)) writer.begin_group(static_cast<int>(group));
      const auto place = static_cast<std::int64_t>(slot / groups);  // in its group
      writer.add(std::span(ids).subspan(sequence.done, count),
                 {.position = static_cast<std::int64_t>(sequence.done),
                  .row = place * setup.sizes.positions,
                  .window_row = place * setup.kv.window.rows()});
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t target = sequence.done + i + 1;
        if (target < sequence.request.from) continue;
        writer.score(static_cast<std::int64_t>(count - i), ids[target]);
        scoring.push_back(&sequence);
      }
      sequence.done += count;
    }
  }
  return writer.take();
}

void Scorer::run(const Next& next, const Scored& scored) {
  Slots slots(static_cast<std::size_t>(engine_.setup().sequences));
  bool more = true;
  while (true) {
    for (std::optional<Sequence>& slot : slots) {
      while (more && !slot) {
        std::optional<ScoreRequest> request = next();
        more = request.has_value();
        if (!more) break;
        Sequence sequence{.number = taken_++, .request = std::move(*request)};
        if (sequence.request.ids.size() > 1) {
          slot = std::move(sequence);
        } else {
          scored(sequence.number, {});  // there is nothing that follows something
        }
      }
    }
    std::vector<Sequence*> scoring;
    const SweepPlan plan = plan_sweep(slots, scoring);
    if (plan.tokens == 0) return;
    engine_.sweep().run(plan);
    const SweepResults results = engine_.tokens().results(plan.sampled);
    for (std::size_t i = 0; i < scoring.size(); ++i) {
      if (std::isnan(results.logprob[i])) {
        throw NumericalError(
            "the probability of a token is not a number; are the weights damaged?");
      }
      scoring[i]->logprobs.push_back(-results.logprob[i]);
    }
    for (std::optional<Sequence>& slot : slots) {
      if (!slot || slot->done + 1 < slot->request.ids.size()) continue;
      const Sequence ended = *std::exchange(slot, std::nullopt);
      scored(ended.number, ended.logprobs);
    }
  }
}

}  // namespace strata
