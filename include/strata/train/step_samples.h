// Which samples a step of a run trained on, or will: a pure function of what a checkpoint's
// manifest says. Nothing is trained for it, and no token is read.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/checkpoint/manifest.h"
#include "strata/config/config.h"
#include "strata/data/token_source.h"

namespace strata {

/// One row of a step's batches, all counted from 0: where it was trained, and what stood in it.
struct StepRow {
  int pass = 0;
  std::int64_t sub_batch = 0;
  int rank = 0;
  std::int64_t row = 0;
  std::int64_t sample = 0;       ///< of all of the run
  std::size_t source = 0;        ///< of StepSamples::sources
  std::int64_t epoch = 0;        ///< pass over the source
  std::int64_t first_token = 0;  ///< index in the source of the row's first token
  TokenPlace place{};            ///< its file, and its index there
  /// Indices in the source behind the last token of each document that ends in the row; empty if
  /// the source does not know documents.
  std::vector<std::int64_t> document_ends{};
};

/// A source of the training set.
struct StepSource {
  std::string name;
  std::int64_t samples = 0;
};

struct StepSamples {
  std::int64_t step = 0;            ///< counted from 1
  int ranks = 1;                    ///< that share the step
  std::int64_t tokens = 0;          ///< of a row
  std::vector<StepSource> sources;  ///< in the order of the config
  std::vector<StepRow> rows;        ///< by sample
};

/// Returns the samples of a step, with the batch shape of the manifest's config. `config` is that
/// config, read. Without `ranks`, there are as many as the samples that the manifest counts tell.
/// Throws ConfigError for a step below 1, or if the batch shape cannot have been the same in all
/// steps up to the checkpoint and the question depends on it; IoError for training data that cannot
/// be read.
[[nodiscard]] StepSamples samples_of_step(const Manifest& manifest, const RunConfig& config,
                                          std::int64_t step, std::optional<int> ranks = {});

}  // namespace strata
