// Curves of many points made drawable: smoothed, and thinned out to what a screen can show. Pages
// and figures draw them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace strata {

/// Values over steps. NaN is a gap.
struct Curve {
  std::vector<std::int64_t> x{};  ///< ascending
  std::vector<double> y{};
};

/// Returns for each value the mean of those up to it, weighted by exp(-distance / steps), with the
/// weights of a short beginning summed to 1 as well. NaN takes no part and stays NaN.
[[nodiscard]] std::vector<double> smoothed(std::span<const double> values, double steps);

/// Returns at most 2 * `buckets` of the points: the smallest and the largest value of each of so
/// many runs of neighbours, so that no spike is lost, and the first and the last point. A bucket
/// with a NaN keeps one as well, so that gaps stay. Fewer points stay as they are.
[[nodiscard]] Curve thinned(std::span<const std::int64_t> x, std::span<const double> y,
                            std::size_t buckets);

}  // namespace strata
