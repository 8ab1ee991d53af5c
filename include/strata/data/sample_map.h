// Where the samples of a run lie: source, epoch and first token of each, as a pure function of seed
// and sample index. Batch loaders ask for each row that they fill, and whoever lists the samples of
// a step asks the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "strata/data/mixture.h"
#include "strata/data/token_source.h"

namespace strata {

/// In which order the samples of a source are taken.
enum class SampleOrder : std::uint8_t {
  kShuffled,  ///< for training: endless, in the order of sample() in sample_order.h
  kInOrder,   ///< endless as well, but 0, 1, 2, ... in every epoch
  /// For evaluation: 0, 1, 2, ...; after the last sample come rows of id 0 with ignored targets.
  kOnce,
};

/// One of the sources of a mixture.
struct SourceShare {
  const TokenSource* tokens = nullptr;  ///< not null; outlives who is given it
  double weight = 1;
};

/// How samples are cut from sources and ordered.
struct SampleCut {
  std::int64_t tokens = 0;  ///< T, of a sample
  SampleOrder order = SampleOrder::kShuffled;
  std::uint64_t seed = 0;
};

/// The place of one sample. Sample i of a source is its tokens [i*T, i*T + T], the last of which is
/// only a target.
struct SamplePlace {
  std::size_t source = 0;
  std::int64_t epoch = 0;  ///< passes over the source that came before
  std::int64_t first_token = 0;
};

/// The samples of all sources. Safe from any thread.
class SampleMap {
 public:
  /// Throws IoError if a source does not hold one sample, ConfigError for what Mixture refuses and
  /// for several sources in the order kOnce.
  SampleMap(std::vector<SourceShare> sources, const SampleCut& cut);

  /// Returns where sample `index` of the run lies, from 0 on. The first source is shuffled by the
  /// seed itself, the others by seeds made of it.
  [[nodiscard]] SamplePlace at(std::int64_t index) const;
  /// Returns whether there is a sample of this index: always, but in the order kOnce.
  [[nodiscard]] bool has(std::int64_t index) const;
  [[nodiscard]] const std::vector<SourceShare>& sources() const { return sources_; }
  /// Returns the samples of one source: (size - 1) / T.
  [[nodiscard]] std::int64_t samples(std::size_t source) const { return samples_[source]; }
  /// Returns the samples of all sources.
  [[nodiscard]] std::int64_t samples() const;
  /// Returns how many epochs of a source the first `samples` samples of the run have taken.
  [[nodiscard]] double epochs(std::size_t source, std::int64_t samples) const;

 private:
  std::vector<SourceShare> sources_;
  SampleCut cut_;
  Mixture mixture_;
  std::vector<std::int64_t> samples_;  ///< of each source
};

}  // namespace strata
