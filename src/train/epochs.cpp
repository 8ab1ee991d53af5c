// A mixture takes its sources by weight, so that one of them may be read thrice while another is
// not read to its end: an epoch is as many rows as all of them have together.

#include "strata/train/epochs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/data/sample_map.h"

namespace strata {

namespace {

SampleMap map_of(const RunConfig& config, const TrainingSet& set) {
  const BatchOptions options = training_batches(config, 0, 1);
  return {
      set.shares(),
      {.tokens = config.data.sequence_length, .order = options.sample_order, .seed = options.seed}};
}

}  // namespace

std::int64_t steps_of_epochs(double epochs, std::int64_t samples, std::int64_t step_rows) {
  const double steps = epochs * static_cast<double>(samples) / static_cast<double>(step_rows);
  // 0.3 epochs of 10 rows are 3, though their product is a little more.
  constexpr double kRounding = 1e-9;
  const double whole = std::ceil(steps * (1 - kRounding));
  if (!(whole <= kMostCount)) {
    throw ConfigError("run.epochs: are " + format_count(samples) +
                      " rows each, of which a step takes " + format_count(step_rows) +
                      ", and so more than " + format_count(static_cast<std::int64_t>(kMostCount)) +
                      " steps; lower it");
  }
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(whole));
}

RunConfig with_steps_of_epochs(RunConfig config, int ranks) {
  if (!config.run.epochs) return config;
  const TrainingSet set = open_training_set(config);
  const double epochs = *std::exchange(config.run.epochs, std::nullopt);
  config.run.steps =
      steps_of_epochs(epochs, map_of(config, set).samples(), config.step_rows(ranks));
  config.validate("run.epochs, which is " + format_count(config.run.steps) + " steps");
  return config;
}

std::string epochs_text(const RunConfig& config, const TrainingSet& set, int ranks) {
  if (config.data.synthetic) return {};
  const SampleMap map = map_of(config, set);
  const std::int64_t taken = config.run.steps * config.step_rows(ranks);
  std::string text = fmt::format("{} step{} = {:.2f} epochs of {} rows",
                                 format_count(config.run.steps), config.run.steps == 1 ? "" : "s",
                                 static_cast<double>(taken) / static_cast<double>(map.samples()),
                                 format_count(map.samples()));
  if (set.sources.size() == 1) return text;
  for (std::size_t i = 0; i < set.sources.size(); ++i) {
    text += fmt::format("{}{} {:.2f}", i == 0 ? ": " : ", ", set.sources[i]->name(),
                        map.epochs(i, taken));
  }
  return text;
}

}  // namespace strata
