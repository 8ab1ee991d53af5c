// The order of samples is the loader's (first_sample_of, SampleMap), and so is the place of a row.

#include "strata/train/step_samples.h"

#include <limits>

#include "strata/base/error.h"
#include "strata/base/narrow.h"
#include "strata/base/text.h"
#include "strata/data/sample_map.h"
#include "strata/train/training_data.h"

namespace strata {

namespace {

std::int64_t trained_samples(const Manifest& manifest) {
  return manifest.samples - samples_in(manifest.skipped);
}

/// Returns with how many ranks all steps up to the checkpoint consumed its samples, or nothing if
/// no number of them does. `of_rank` are the samples that a rank takes in a step.
std::optional<int> ranks_of(const Manifest& manifest, std::int64_t of_rank) {
  if (manifest.step <= 0 || of_rank <= 0) return std::nullopt;
  const std::int64_t trained = trained_samples(manifest);
  const std::int64_t each = trained / manifest.step;
  const bool even = trained % manifest.step == 0 && each > 0 && each % of_rank == 0;
  if (!even || each / of_rank > std::numeric_limits<int>::max()) return std::nullopt;
  return narrow<int>(each / of_rank);
}

/// Returns the sample that the step begins with.
std::int64_t first_sample(const Manifest& manifest, std::int64_t step, std::int64_t per_step) {
  if (step > manifest.step) {
    std::int64_t end = 0;
    if (__builtin_mul_overflow(step - manifest.step, per_step, &end) ||
        __builtin_add_overflow(manifest.samples, end, &end)) {
      throw ConfigError("--step: samples of step " + format_count(step) +
                        " are behind the last one that can be counted; name an earlier step");
    }
    return end - per_step;
  }
  if (trained_samples(manifest) == manifest.step * per_step) {
    std::int64_t sample = (step - 1) * per_step;
    for (const SampleWindow& window : manifest.skipped) {
      if (window.begin <= sample) sample += window.end - window.begin;
    }
    return sample;
  }
  throw ConfigError("--step: the first " + std::to_string(manifest.step) + " steps consumed " +
                    std::to_string(trained_samples(manifest)) + " samples, which are not " +
                    std::to_string(per_step) +
                    " a step: the run went on with another batch shape or number of ranks before "
                    "this checkpoint; ask a checkpoint from before that for its steps");
}

/// Sets what a row says of its sample.
void place(std::int64_t sample, const SampleMap& map, std::int64_t tokens, StepRow& row) {
  const SamplePlace at = map.at(sample);
  const TokenSource& source = *map.sources()[at.source].tokens;
  row.sample = sample;
  row.source = at.source;
  row.epoch = at.epoch;
  row.first_token = at.first_token;
  row.place = source.place_of(at.first_token);
  source.document_ends_in(at.first_token, at.first_token + tokens, row.document_ends);
}

}  // namespace

StepSamples samples_of_step(const Manifest& manifest, const RunConfig& config, std::int64_t step,
                            std::optional<int> ranks) {
  if (step < 1) throw ConfigError("--step: steps are counted from 1");
  BatchOptions options = training_batches(config, 0, 1);
  const BatchShape shape = options.shape;
  const std::int64_t of_rank = options.passes * shape.sub_batches * shape.rows;
  if (!ranks && config.schedule.step_rows) {
    throw ConfigError(
        "--step: with schedule.step_rows samples do not tell how many ranks shared "
        "the step; name them (--ranks)");
  }
  if (!ranks) ranks = ranks_of(manifest, of_rank);
  if (!ranks) {
    throw ConfigError("--step: " + std::to_string(trained_samples(manifest)) + " samples in " +
                      std::to_string(manifest.step) +
                      " steps fit no number of ranks with the batch shape of the checkpoint's "
                      "config: the run went on with another one. Name the ranks of the steps "
                      "after the checkpoint (--ranks)");
  }
  if (*ranks < 1) throw ConfigError("--ranks: there is at least 1");
  constexpr std::int64_t kMostListed = std::int64_t{1} << 24;
  if (of_rank > kMostListed / *ranks) {
    throw ConfigError("--ranks: a step of " + format_count(*ranks) + " ranks with " +
                      format_count(of_rank) + " samples each has more than the " +
                      format_count(kMostListed) + " that are listed; name fewer");
  }
  options = training_batches(config, 0, *ranks);
  const std::int64_t rows = config.step_rows(*ranks);
  const std::int64_t first = first_sample(manifest, step, rows);
  const TrainingSet set = open_training_set(config);
  const SampleMap map(
      set.shares(), {.tokens = shape.tokens, .order = options.sample_order, .seed = options.seed});
  StepSamples result{
      .step = step, .ranks = options.ranks, .tokens = shape.tokens, .sources = {}, .rows = {}};
  for (std::size_t i = 0; i < set.sources.size(); ++i) {
    result.sources.push_back({.name = set.sources[i]->name(), .samples = map.samples(i)});
  }
  for (int pass = 0; pass < options.passes; ++pass) {
    for (std::int64_t s = 0; s < shape.sub_batches; ++s) {
      for (options.rank = 0; options.rank < options.ranks; ++options.rank) {
        for (std::int64_t r = 0; r < shape.rows; ++r) {
          StepRow row{.pass = pass, .sub_batch = s, .rank = options.rank, .row = r};
          const std::int64_t of_step = first_sample_of(options, pass, s) + r;
          if (of_step >= rows) continue;
          place(first + of_step, map, shape.tokens, row);
          result.rows.push_back(std::move(row));
        }
      }
    }
  }
  return result;
}

}  // namespace strata
