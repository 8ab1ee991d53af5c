// A sweep first takes the one new token of each sequence that is past its prompt, then as much of
// the prompts as there is room for. Rows of keys and values are consecutive for each sequence, and
// are given back when it ends.

#include "strata/run/generator.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <stdexcept>
#include <utility>

#include "run/sweep_writer.h"
#include "strata/base/error.h"
#include "strata/base/process.h"
#include "strata/base/random.h"
#include "strata/base/text.h"

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

/// Returns the rows that a sequence takes: the last drawn token goes through no layer.
std::int64_t rows_of(const GenerateRequest& request) {
  return std::ssize(request.prompt) + std::max<std::int64_t>(request.most_tokens, 1) - 1;
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
  if (top_k < 0 || top_k > (std::int64_t{1} << 31) - 1) return "top_k must be 0 (all) or more";
  return {};
}

void Generator::Sequence::add(std::int32_t id) {
  ids.push_back(id);
  if (request.sampling.repeat_penalty == 1) return;
  const auto place = std::lower_bound(seen.begin(), seen.end(), id);
  if (place == seen.end() || *place != id) seen.insert(place, id);
}

Generator::Generator(SweepAssembly& assembly)
    : assembly_(assembly),
      free_(static_cast<std::size_t>(assembly.setup().kv.groups)),
      active_(free_.size()) {
  for (FreeRows& rows : free_) rows[0] = assembly.setup().kv.rows;
}

std::string Generator::problem(const GenerateRequest& request) const {
  const SweepSetup& setup = assembly_.setup();
  if (request.prompt.empty()) return "the prompt has no token";
  for (const std::int32_t id : request.prompt) {
    if (id >= 0 && id < setup.model.vocab_size) continue;
    return "the prompt has id " + std::to_string(id) + ", and the model's vocabulary is " +
           format_count(setup.model.vocab_size);
  }
  if (request.most_tokens < 1) return "at least one token must be drawn";
  const std::int64_t tokens = std::ssize(request.prompt) + request.most_tokens;
  if (tokens > setup.sizes.positions) {
    return "the prompt has " + format_count(std::ssize(request.prompt)) + " tokens and up to " +
           format_count(request.most_tokens) + " are to follow, but a sequence may have " +
           format_count(setup.sizes.positions) + "; shorten it, or raise --context";
  }
  if (request.sampling.repeat_penalty != 1 && setup.sweep.seen == 0) {
    return "repeat_penalty was not planned for";
  }
  return request.sampling.problem();
}

bool Generator::admit(const GenerateRequest& request) {
  std::int64_t sequences = 0;
  for (const auto& group : active_) sequences += std::ssize(group);
  if (sequences >= assembly_.setup().sequences) return false;
  const std::int64_t rows = rows_of(request);
  // The group with the fewest sequences that has room, so that groups compute alike.
  std::size_t best = free_.size();
  FreeRows::iterator place;
  for (std::size_t group = 0; group < free_.size(); ++group) {
    if (best < free_.size() && active_[group].size() >= active_[best].size()) continue;
    const auto found = std::find_if(free_[group].begin(), free_[group].end(),
                                    [&](const auto& run) { return run.second >= rows; });
    if (found == free_[group].end()) continue;
    best = group;
    place = found;
  }
  if (best == free_.size()) return false;
  const auto [begin, count] = *place;
  free_[best].erase(place);
  if (count > rows) free_[best][begin + rows] = count - rows;
  Sequence sequence{.number = taken_++,
                    .request = request,
                    .group = static_cast<int>(best),
                    .row = begin,
                    .rows = rows,
                    .key = key_of(request)};
  for (const std::int32_t id : request.prompt) sequence.add(id);
  active_[best].push_back(std::move(sequence));
  return true;
}

void Generator::release(const Sequence& sequence) {
  FreeRows& rows = free_[static_cast<std::size_t>(sequence.group)];
  auto run = rows.emplace(sequence.row, sequence.rows).first;
  const auto next = std::next(run);
  if (next != rows.end() && run->first + run->second == next->first) {
    run->second += next->second;
    rows.erase(next);
  }
  if (run == rows.begin()) return;
  const auto before = std::prev(run);
  if (before->first + before->second != run->first) return;
  before->second += run->second;
  rows.erase(run);
}

SweepPlan Generator::plan_sweep(std::vector<Sequence*>& drawing) {
  const SweepSetup& setup = assembly_.setup();
  // Tokens of prompts that come first have the room that those after them lack.
  std::int64_t room = setup.sweep.tokens;
  std::vector<Sequence*> prompts;
  for (auto& group : active_) {
    for (Sequence& sequence : group) {
      if (sequence.pending() > 1) {
        prompts.push_back(&sequence);
      } else {
        --room;
      }
    }
  }
  std::ranges::sort(prompts, {}, &Sequence::number);
  std::map<const Sequence*, std::int64_t> counts;
  for (const Sequence* sequence : prompts) {
    const std::int64_t count = std::min(room, sequence->pending());
    counts[sequence] = count;
    room -= count;
  }
  SweepWriter writer(assembly_.tokens().host(), setup.sizes.cell_tokens);
  const auto add = [&](Sequence& sequence, std::int64_t count) {
    const auto done = static_cast<std::size_t>(sequence.done);
    if (sequence.drawn() > 0) {
      writer.add_single(sequence.ids[done], sequence.done, sequence.row);
    } else {
      writer.add(std::span(sequence.ids).subspan(done, static_cast<std::size_t>(count)),
                 sequence.done, sequence.row);
      counts_.prompt_tokens += count;
    }
    sequence.done += count;
    if (sequence.pending() > 0) return;
    const Sampling& how = sequence.request.sampling;
    writer.draw(
        {.temperature = how.temperature,
         .top_p = how.top_p,
         .min_p = how.min_p,
         .repeat_penalty = how.repeat_penalty,
         .uniform = random_uniform(sequence.key, 0, static_cast<std::uint64_t>(sequence.drawn())),
         .top_k = static_cast<std::int32_t>(how.top_k)},
        sequence.seen);
    drawing.push_back(&sequence);
  };
  for (std::size_t g = 0; g < active_.size(); ++g) {
    bool begun = false;
    for (const bool past_prompt : {true, false}) {
      for (Sequence& sequence : active_[g]) {
        if ((sequence.drawn() > 0) != past_prompt) continue;
        const std::int64_t count = sequence.pending() > 1 ? counts.at(&sequence) : 1;
        if (count == 0) continue;
        if (!std::exchange(begun, true)) writer.begin_group(static_cast<int>(g));
        add(sequence, count);
      }
    }
  }
  return writer.take();
}

void Generator::run(const Next& next, const Drawn& drawn) {
  const double begin_s = steady_seconds();
  const double before_s = counts_.seconds;
  std::optional<GenerateRequest> waiting = next();
  while (true) {
    while (waiting && admit(*waiting)) waiting = next();
    if (std::ranges::all_of(active_, [](const auto& group) { return group.empty(); })) {
      if (waiting) throw std::logic_error("a request has no room: " + problem(*waiting));
      break;
    }
    std::vector<Sequence*> drawing;
    const SweepPlan plan = plan_sweep(drawing);
    assembly_.sweep().run(plan);
    ++counts_.sweeps;
    const SweepResults results = assembly_.tokens().results(plan.sampled);
    for (std::size_t i = 0; i < drawing.size(); ++i) {
      Sequence& sequence = *drawing[i];
      const std::int32_t id = results.token[i];
      if (id < 0) {
        throw NumericalError("the logits after " + format_count(std::ssize(sequence.ids)) +
                             " tokens are not finite; are the weights damaged?");
      }
      sequence.add(id);
      ++counts_.drawn_tokens;
      const bool goes_on =
          drawn({.sequence = sequence.number, .id = id, .logprob = results.logprob[i]});
      if (goes_on && sequence.drawn() < sequence.request.most_tokens) continue;
      release(sequence);
      ++counts_.sequences;
      sequence.rows = 0;
    }
    for (auto& group : active_) {
      std::erase_if(group, [](const Sequence& sequence) { return sequence.rows == 0; });
    }
    counts_.seconds = before_s + steady_seconds() - begin_s;
  }
}

}  // namespace strata
