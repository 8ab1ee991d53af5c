// What a config says of the data that a run trains on: the files, and how steps are cut from them.
// A session reads by it, and whoever asks which samples a step had.

#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "strata/checkpoint/manifest.h"
#include "strata/config/config.h"
#include "strata/data/batch.h"
#include "strata/data/compatible.h"
#include "strata/data/packed_tokens.h"
#include "strata/data/pair_reference.h"
#include "strata/data/token_source.h"

namespace strata {

/// The sources that a run trains on, which it owns.
struct TrainingSet {
  std::vector<std::unique_ptr<TokenSource>> sources;
  std::vector<double> weights;         ///< of the sources
  std::vector<PackingCounts> packing;  ///< of the sources; empty without data.packing

  /// Returns what a loader takes; it refers to the sources.
  [[nodiscard]] std::vector<SourceShare> shares() const;
};

/// Opens the files of a source as data.dtype and data.eos_token say, as they are. Throws IoError
/// that names the file, or two that are from different tokenizers.
[[nodiscard]] std::unique_ptr<TokenSource> open_files(const DataSection& data,
                                                      const FileSource& source);
/// Returns what the run wants of the stored references of its token files, or nothing if it reads
/// none. `started_from` are the weights of a run that goes on, as its checkpoint has them; absent,
/// they are those of model.path. Throws ConfigError for a vocabulary that grows, since no command
/// scores by rows that only the run has, and as open_start_weights() does.
[[nodiscard]] std::optional<ReferenceWish> reference_wish(
    const RunConfig& config, const std::optional<BaseWeights>& started_from);
/// Opens the files of data.train as data.dtype and data.eos_token say, or makes the tokens of
/// data.synthetic, and packs them as data.packing says. Their references are opened only for who
/// reads them. Throws IoError that names the file, or two that are from different tokenizers.
[[nodiscard]] TrainingSet open_training_set(const RunConfig& config,
                                            const std::optional<ReferenceWish>& reference = {});
/// Opens the files of data.validation, of which there are some, as one source. Throws likewise.
[[nodiscard]] std::unique_ptr<TokenSource> open_validation_set(
    const RunConfig& config, const std::optional<ReferenceWish>& reference = {});
/// Returns what token files of a run must belong to.
[[nodiscard]] ModelTokenizer tokenizer_of(const ModelSection& model);
/// Returns what a loader of the training set is made for on one rank.
[[nodiscard]] BatchOptions training_batches(const RunConfig& config, int rank, int ranks);

}  // namespace strata
