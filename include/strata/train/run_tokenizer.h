// The folder "tokenizer" of a run folder (kRunTokenizerName): the tokenizer, chat template and end
// ids that the run's model leaves with, there from the first step on. It serves to tokenize more
// data alike, and tells how the model is talked to before there is a checkpoint.
#pragma once

#include <filesystem>
#include <string_view>

#include "strata/config/config.h"
#include "strata/train/checkpointer.h"

namespace strata {

/// Writes it into the run folder of `place`, in place of an earlier one; there is none where the
/// run knows no tokenizer. The files are those that `checkpoints` have, or are collected where the
/// run saves none and `checkpoints` is null. Throws IoError if files cannot be read or written, or
/// if something that is no folder has its name.
void write_run_tokenizer(const CheckpointPlace& place, const RunConfig& config,
                         const Checkpointer* checkpoints = nullptr);

}  // namespace strata
