// What leaves with a model beside its weights, where the folder that the run began with does not
// have it: the tokenizer, how it is talked to, and where its answers end. model.tokenizer and the
// folders beside the token files say so; every checkpoint and export has it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "strata/checkpoint/model_folder.h"
#include "strata/complete/model_text.h"
#include "strata/config/config.h"
#include "strata/train/checkpoint_place.h"

namespace strata {

struct Companions {
  ImportedFiles files;
  /// The ids that begin and end texts of a new model, for its config.json.
  std::optional<std::int32_t> begin{};
  std::optional<std::int32_t> end{};
};

/// Returns the files of the model that a run began with, or of the checkpoint that it goes on from,
/// with those that its config and training data add or replace:
/// - the tokenizer of model.tokenizer, else that beside the token files where the model has none;
/// - the chat template beside the first token file that has one;
/// - generation_config.json, with the model's own ids that end texts before those that end answers.
/// Throws IoError and ConfigError for files that cannot be read.
[[nodiscard]] Companions with_companions(ImportedFiles model, const RunConfig& config);
/// Returns them for a run that begins with model.path, or goes on from the checkpoint of `place`,
/// whose files must outlive them.
[[nodiscard]] Companions companions_of_run(const CheckpointPlace& place, const RunConfig& config);

/// Returns where the same tokenizer and template lie while the run goes on, for its samples.
[[nodiscard]] ModelTextOptions texts_of_run(const RunConfig& config);
/// Returns the ids at which texts of the model end, its own before those that end answers in the
/// training data. `text` is of texts_of_run().
[[nodiscard]] std::vector<std::int32_t> ends_of_run(const RunConfig& config, const ModelText& text);

}  // namespace strata
