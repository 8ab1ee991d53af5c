// What a config says of the data that a run trains on: the files, and how steps are cut from them.
// A session reads by it, and whoever asks which samples a step had.

#pragma once

#include <memory>
#include <string>

#include "strata/config/config.h"
#include "strata/data/batch.h"
#include "strata/data/token_source.h"

namespace strata {

/// Opens a token file as data.dtype and data.eos_token say, or makes the tokens of data.synthetic.
/// Throws IoError that names the file.
[[nodiscard]] std::unique_ptr<TokenSource> open_tokens(const RunConfig& config,
                                                       const std::string& file);
/// Returns what a loader of the training set is made for on one rank.
[[nodiscard]] BatchOptions training_batches(const RunConfig& config, int rank, int ranks);

}  // namespace strata
