// Decides from which source each sample comes. A period is filled by the rule of proportionate
// fairness (Baruah, Cohen, Plaxton and Varvel, 1996): the j-th sample of a source with p of D slots
// must come neither before slot floor(j*D/p) nor after slot ceil((j+1)*D/p) - 1, or its share would
// be off by a whole sample. Taking, of those that may come, the one that must come first keeps all
// of these bounds, since the shares add up to 1.

#include "strata/data/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>

#include "strata/base/error.h"

namespace strata {

namespace {

using Parts = std::vector<std::int64_t>;  ///< slots of each source

/// Returns the parts of a period of `slots`, if they are as the shares say to the last bits.
std::optional<Parts> exact_parts(std::span<const double> shares, std::int64_t slots) {
  constexpr double kRounding = 1e-14;  // of shares, for each slot
  Parts parts;
  for (const double share : shares) {
    const double exact = share * static_cast<double>(slots);
    const double part = std::round(exact);
    if (part < 1 || std::abs(part - exact) > kRounding * static_cast<double>(slots)) {
      return std::nullopt;
    }
    parts.push_back(static_cast<std::int64_t>(part));
  }
  if (std::accumulate(parts.begin(), parts.end(), std::int64_t{0}) != slots) return std::nullopt;
  return parts;
}

/// Returns the parts of the longest period: shares rounded down, and what is left goes to those
/// that lost most.
Parts rounded_parts(std::span<const double> shares) {
  constexpr auto kSlots = static_cast<std::int64_t>(Mixture::kMostSlots);
  Parts parts;
  std::vector<double> lost;
  for (const double share : shares) {
    const double exact = share * static_cast<double>(kSlots);
    parts.push_back(std::max<std::int64_t>(1, static_cast<std::int64_t>(exact)));
    lost.push_back(exact - static_cast<double>(parts.back()));
  }
  for (auto left = kSlots - std::accumulate(parts.begin(), parts.end(), std::int64_t{0}); left > 0;
       --left) {
    const auto most = static_cast<std::size_t>(std::ranges::max_element(lost) - lost.begin());
    ++parts[most];
    lost[most] -= 1;
  }
  return parts;
}

Parts parts_of(std::span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> shares(weights.begin(), weights.end());
  for (double& share : shares) share /= sum;
  const double least = 1 / static_cast<double>(Mixture::kMostSlots);
  const auto counts = [&](double share) { return share >= least && std::isfinite(share); };
  if (shares.empty() || shares.size() > Mixture::kMostSources ||
      !std::ranges::all_of(shares, counts)) {
    throw ConfigError("a mixture has 1 to " + std::to_string(Mixture::kMostSources) +
                      " sources, each with at least 1/" + std::to_string(Mixture::kMostSlots) +
                      " of the sum of the weights");
  }
  for (std::int64_t slots = 1; slots <= static_cast<std::int64_t>(Mixture::kMostSlots); ++slots) {
    if (auto parts = exact_parts(shares, slots)) return *parts;
  }
  return rounded_parts(shares);
}

}  // namespace

Mixture::Mixture(std::span<const double> weights) {
  const Parts parts = parts_of(weights);
  const std::int64_t slots = std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
  slots_.resize(parts.size());
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    std::size_t next = 0;
    std::int64_t next_deadline = slots + 1;
    for (std::size_t source = 0; source < parts.size(); ++source) {
      const std::int64_t taken = std::ssize(slots_[source]);
      const bool may_come = taken * slots < (slot + 1) * parts[source];
      const std::int64_t deadline = ((taken + 1) * slots + parts[source] - 1) / parts[source];
      if (may_come && deadline < next_deadline) {
        next = source;
        next_deadline = deadline;
      }
    }
    source_of_slot_.push_back(static_cast<std::uint16_t>(next));
    slots_[next].push_back(static_cast<std::uint32_t>(slot));
  }
}

Mixture::Turn Mixture::at(std::int64_t index) const {
  const std::size_t source = source_of_slot_[static_cast<std::size_t>(index % period())];
  return {.source = source, .index = count(source, index)};
}

std::int64_t Mixture::count(std::size_t source, std::int64_t samples) const {
  const std::vector<std::uint32_t>& slots = slots_[source];
  const auto slot = static_cast<std::uint32_t>(samples % period());
  const auto before = std::lower_bound(slots.begin(), slots.end(), slot) - slots.begin();
  return samples / period() * std::ssize(slots) + before;
}

}  // namespace strata
