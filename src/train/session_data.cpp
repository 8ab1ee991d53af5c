// A validation goes through its set once and in order, whatever the order of training.
// session_data.h is the contract.

#include "train/session_data.h"

#include <algorithm>

#include "strata/data/compatible.h"

namespace strata {

SessionData::SessionData(const RunConfig& config, const BatchOptions& options,
                         const std::optional<ReferenceWish>& reference, ThreadPool& pool)
    : most_validation_passes_(config.run.eval_batches),
      training_set_(open_training_set(config, reference)) {
  const ModelTokenizer tokenizer = tokenizer_of(config.model);
  for (const auto& source : training_set_.sources) require_tokenizer_of(tokenizer, *source);
  training_ = std::make_unique<BatchLoader>(training_set_.shares(), options, pool);
  if (!config.data.validation.empty()) open_validation(config, options, reference, pool);
}

void SessionData::open_validation(const RunConfig& config, BatchOptions options,
                                  const std::optional<ReferenceWish>& reference, ThreadPool& pool) {
  options.passes = 1;
  options.step_rows.reset();
  options.sample_order = SampleOrder::kOnce;
  validation_source_ = open_validation_set(config, reference);
  require_tokenizer_of(tokenizer_of(config.model), *validation_source_);
  for (const auto& source : training_set_.sources) {
    require_same_tokenizer(*source, *validation_source_);
  }
  validation_ = std::make_unique<BatchLoader>(*validation_source_, options, pool);
}

void SessionData::require_targets() const {
  training_->require_target(training_->samples());
  if (!validation_) return;
  validation_->require_target(validation_passes() * validation_->samples_per_step());
}

void SessionData::take_memory() {
  training_->take_memory();
  if (validation_) validation_->take_memory();
}

std::int64_t SessionData::validation_passes() const {
  const std::int64_t rows = validation_->samples_per_step();
  const std::int64_t passes = (validation_->samples() + rows - 1) / rows;
  return most_validation_passes_ > 0 ? std::min(passes, most_validation_passes_) : passes;
}

}  // namespace strata
