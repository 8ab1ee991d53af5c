// Finds the place of a sample by two pure functions, one after the other: the mixture gives a
// sample its source and its number there, and the order of that source's samples gives the number
// its place.

#include "strata/data/sample_map.h"

#include <numeric>
#include <string>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/random.h"
#include "strata/data/sample_order.h"

namespace strata {

namespace {

/// Part of what a seed means, as are the constants of sample_order.cpp.
constexpr std::uint64_t kSourceStream = 0x736f75726365;  // "source"

std::uint64_t seed_of(std::uint64_t seed, std::size_t source) {
  return source == 0 ? seed : random_bits(seed, kSourceStream, source);
}

std::vector<double> weights_of(const std::vector<SourceShare>& sources) {
  std::vector<double> weights;
  for (const SourceShare& source : sources) weights.push_back(source.weight);
  return weights;
}

}  // namespace

SampleMap::SampleMap(std::vector<SourceShare> sources, const SampleCut& cut)
    : sources_(std::move(sources)), cut_(cut), mixture_(weights_of(sources_)) {
  if (cut.order == SampleOrder::kOnce && sources_.size() > 1) {
    throw ConfigError("several sources have no end; only one can be taken once");
  }
  for (const SourceShare& source : sources_) {
    const std::int64_t size = source.tokens->size();
    if (size <= cut.tokens) {
      throw IoError(source.tokens->name() + ": holds " + std::to_string(size) +
                    " tokens; a row of " + std::to_string(cut.tokens) + " takes " +
                    std::to_string(cut.tokens + 1) + ". Use shorter rows or more text");
    }
    samples_.push_back((size - 1) / cut.tokens);
  }
}

SamplePlace SampleMap::at(std::int64_t index) const {
  const auto [source, number] = mixture_.at(index);
  SamplePosition at{.epoch = number / samples_[source], .position = number % samples_[source]};
  if (cut_.order == SampleOrder::kShuffled) {
    at = sample(seed_of(cut_.seed, source), number, samples_[source]);
  }
  return {.source = source, .epoch = at.epoch, .first_token = at.position * cut_.tokens};
}

bool SampleMap::has(std::int64_t index) const {
  return cut_.order != SampleOrder::kOnce || index < samples();
}

std::int64_t SampleMap::samples() const {
  return std::accumulate(samples_.begin(), samples_.end(), std::int64_t{0});
}

double SampleMap::epochs(std::size_t source, std::int64_t samples) const {
  return static_cast<double>(mixture_.count(source, samples)) /
         static_cast<double>(samples_[source]);
}

}  // namespace strata
