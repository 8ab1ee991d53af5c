// From which of several sources each sample of a run is taken, so that each gets its share by
// weight at any time. A pure function of the sample's index, for any of them alone: ranks find
// their own, and a run that goes on needs no more than the samples that were consumed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace strata {

/// The order in which sources take turns. It repeats after a period of slots, in which each source
/// has as many as its weight says: the smallest period that gives all weights exactly, or, where
/// none of at most kMostSlots does, one of kMostSlots, to which weights are rounded. In the first n
/// samples, for every n, a source with a share w of the period has more than n*w - 1 samples and
/// fewer than n*w + 1.
class Mixture {
 public:
  static constexpr std::size_t kMostSlots = 1 << 16;
  static constexpr std::size_t kMostSources = 256;

  /// A source, and how many samples of it came before.
  struct Turn {
    std::size_t source = 0;
    std::int64_t index = 0;
    bool operator==(const Turn&) const = default;
  };

  /// Throws ConfigError unless there are 1 to kMostSources weights, all above 0 and none below
  /// 1/kMostSlots of their sum.
  explicit Mixture(std::span<const double> weights);

  /// Returns whose turn sample `index` of the run is, from 0 on.
  [[nodiscard]] Turn at(std::int64_t index) const;
  /// Returns how many of the first `samples` samples of the run are of one source.
  [[nodiscard]] std::int64_t count(std::size_t source, std::int64_t samples) const;
  /// Returns the slots of a period.
  [[nodiscard]] std::int64_t period() const { return std::ssize(source_of_slot_); }

 private:
  std::vector<std::uint16_t> source_of_slot_;
  std::vector<std::vector<std::uint32_t>> slots_;  ///< of each source, ascending
};

}  // namespace strata
