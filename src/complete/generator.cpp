// The batch says what goes through a sweep; here its ids are written, and what was drawn is handed
// out.

#include "strata/complete/generator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/process.h"
#include "strata/base/random.h"
#include "strata/base/text.h"
#include "strata/complete/sequence_length.h"
#include "strata/schedule/sweep_writer.h"

namespace strata {

namespace {

/// Returns the seed of a sequence's random numbers: a function of seed, prompt and sample alone.
std::uint64_t key_of(const GenerateRequest& request) {
  std::uint64_t hash = 0;
  for (const std::int32_t id : request.prompt) {
    hash = mix64(hash ^ static_cast<std::uint64_t>(id));
  }
  return random_bits(request.sampling.seed, hash, static_cast<std::uint64_t>(request.sample));
}

}  // namespace

std::string Sampling::problem() const {
  if (!(temperature == 0 || (temperature >= 0.001 && temperature <= 1000))) {
    return "temperature must be 0, which takes the likeliest token, or 0.001 to 1000";
  }
  if (!(top_p > 0 && top_p <= 1)) return "top_p must be above 0 and at most 1";
  if (!(min_p >= 0 && min_p <= 1)) return "min_p must be 0 to 1";
  if (!(repeat_penalty >= 0.01 && repeat_penalty <= 100)) {
    return "repeat_penalty must be 0.01 to 100; 1 changes nothing";
  }
  if (top_k < 0 || top_k > std::numeric_limits<std::int32_t>::max()) {
    return "top_k must be 0, which draws from all tokens, to 2,147,483,647";
  }
  return {};
}

void Generator::Sequence::add(std::int32_t id) {
  ids.push_back(id);
  if (request.sampling.repeat_penalty == 1) return;
  const auto place = std::lower_bound(seen.begin(), seen.end(), id);
  if (place == seen.end() || *place != id) seen.insert(place, id);
}

Generator::Generator(SweepEngine& engine)
    : engine_(engine),
      batch_(engine.setup().kv, engine.setup().sequences, engine.setup().sweep.tokens),
      sequences_(static_cast<std::size_t>(engine.setup().sequences)) {}

std::string Generator::problem(const GenerateRequest& request) const {
  const SweepLayout& setup = engine_.setup();
  if (request.prompt.empty()) return "the prompt has no token";
  for (const std::int32_t id : request.prompt) {
    if (id >= 0 && id < setup.spec.vocabulary) continue;
    return "the prompt has id " + std::to_string(id) + ", and the model's vocabulary is " +
           format_count(setup.spec.vocabulary);
  }
  if (request.most_tokens < 1) return "at least one token must be drawn";
  const std::string length = too_long({.tokens = std::ssize(request.prompt),
                                       .to_follow = request.most_tokens,
                                       .most = setup.sizes.positions},
                                      "shorten it, or raise --context");
  if (!length.empty()) return "the prompt " + length;
  if (request.sampling.repeat_penalty != 1 && setup.sweep.seen == 0) {
    return "repeat_penalty was not planned for";
  }
  return request.sampling.problem();
}

bool Generator::admit(const GenerateRequest& request) {
  const auto slot = batch_.admit(std::ssize(request.prompt), request.most_tokens);
  if (!slot) return false;
  Sequence sequence{.number = taken_++, .request = request, .key = key_of(request)};
  for (const std::int32_t id : request.prompt) sequence.add(id);
  sequences_[*slot] = std::move(sequence);
  return true;
}

SweepPlan Generator::plan_sweep(std::vector<std::size_t>& drawing) {
  SweepWriter writer(engine_.tokens().host(), engine_.setup().sizes.cell_tokens,
                     engine_.setup().kv);
  for (const SweepShare& share : batch_.next_sweep()) {
    const Sequence& sequence = sequences_[share.slot];
    const auto count = static_cast<std::size_t>(share.count);
    const auto ids = std::span(sequence.ids).subspan(static_cast<std::size_t>(share.begin), count);
    writer.add_share(share, ids);
    if (!share.single) counts_.prompt_tokens += share.count;
    if (!share.draws) continue;
    const Sampling& how = sequence.request.sampling;
    const auto drawn = static_cast<std::uint64_t>(batch_.at(share.slot).drawn());
    writer.draw({.temperature = how.temperature,
                 .top_p = how.top_p,
                 .min_p = how.min_p,
                 .repeat_penalty = how.repeat_penalty,
                 .uniform = random_uniform(sequence.key, 0, drawn),
                 .top_k = static_cast<std::int32_t>(how.top_k)},
                sequence.seen);
    drawing.push_back(share.slot);
  }
  return writer.take();
}

void Generator::run(const Next& next, const Drawn& drawn) {
  const double begin_s = steady_seconds();
  const double before_s = counts_.seconds;
  std::optional<GenerateRequest> waiting = next();
  while (true) {
    while (waiting && admit(*waiting)) waiting = next();
    if (batch_.empty()) {
      if (waiting) throw std::logic_error("a request has no room: " + problem(*waiting));
      break;
    }
    std::vector<std::size_t> drawing;
    const SweepPlan plan = plan_sweep(drawing);
    engine_.sweep().run(plan);
    ++counts_.sweeps;
    const SweepResults results = engine_.tokens().results(plan.sampled);
    for (std::size_t i = 0; i < drawing.size(); ++i) {
      Sequence& sequence = sequences_[drawing[i]];
      const std::int32_t id = results.token[i];
      if (id < 0) {
        throw NumericalError("the logits after " + format_count(std::ssize(sequence.ids)) +
                             " tokens are not finite; are the weights damaged?");
      }
      sequence.add(id);
      batch_.add_token(drawing[i]);
      ++counts_.drawn_tokens;
      const bool goes_on =
          drawn({.sequence = sequence.number, .id = id, .logprob = results.logprob[i]});
      if (goes_on && batch_.at(drawing[i]).drawn() < sequence.request.most_tokens) continue;
      batch_.release(drawing[i]);
      ++counts_.sequences;
    }
    counts_.seconds = before_s + steady_seconds() - begin_s;
  }
}

}  // namespace strata
