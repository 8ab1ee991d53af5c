// Makes a backend, a layout, an engine and a generator of a tiny model, and runs requests on them.

#include "support/tiny_generation.h"

#include <algorithm>
#include <exception>

#include "strata/base/convert.h"

namespace strata::test {

TinyGeneration::TinyGeneration(const TinyGenerationOptions& options)
    : ranks_(make_self_ranks()),
      groups_(*ranks_, ShardGroup::kAll),
      backend_(make_backend(options.backend, {.device = {.execution = options.execution,
                                                         .poison_slots = true,
                                                         .omit_wait = options.omit_wait,
                                                         .trace = options.trace},
                                              .threads = 2})),
      collectives_(make_group_collectives(groups_, *backend_.device)),
      setup_(make_generation_setup(options.model, options.needs, Budget{})) {
  engine_ = std::make_unique<GenerationEngine>(setup_, backend_, *collectives_.shard);
  if (options.fill) {
    options.fill(engine_->state(), *backend_.pool);
  } else {
    engine_->state().initialize(3, options.model.initializer_range, *backend_.pool);
  }
  generator_ = std::make_unique<Generator>(*engine_);
}

TinyGeneration::~TinyGeneration() {
  try {
    backend_.device->synchronize();
  } catch (const std::exception&) {  // a test that wants to see it waits itself
  }
}

std::vector<Continuation> TinyGeneration::run(const std::vector<GenerateRequest>& requests,
                                              const Generator::Drawn& goes_on) {
  std::vector<Continuation> all(requests.size());
  std::size_t taken = 0;
  generator_->run(
      [&]() -> std::optional<GenerateRequest> {
        if (taken == requests.size()) return std::nullopt;
        return requests[taken++];
      },
      [&](const DrawnToken& token) {
        all.at(token.sequence).ids.push_back(token.id);
        all.at(token.sequence).logprobs.push_back(token.logprob);
        return !goes_on || goes_on(token);
      });
  return all;
}

std::vector<double> TinyGeneration::last_logits(std::int64_t rows) {
  backend_.device->synchronize();
  const ConstTensorView logits = engine_->model().last_logits();
  std::vector<double> all;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::vector<double> one = load_as_double(logits.slice_rows(row, 1));
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

}  // namespace strata::test
