// Smooths and thins out curves. Thinning keeps extremes rather than means, since a spike of one
// step is what a person looks for.

#include "strata/report/curve.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace strata {

std::vector<double> smoothed(std::span<const double> values, double steps) {
  const double keep = std::exp(-1 / steps);
  double sum = 0;
  double weight = 0;
  std::vector<double> means;
  means.reserve(values.size());
  for (const double value : values) {
    if (!std::isfinite(value)) {
      means.push_back(std::numeric_limits<double>::quiet_NaN());
      continue;
    }
    sum = keep * sum + value;
    weight = keep * weight + 1;
    means.push_back(sum / weight);
  }
  return means;
}

Curve thinned(std::span<const std::int64_t> x, std::span<const double> y, std::size_t buckets) {
  const std::size_t count = std::min(x.size(), y.size());
  Curve curve;
  const auto keep = [&](std::size_t i) {
    curve.x.push_back(x[i]);
    curve.y.push_back(y[i]);
  };
  if (count <= 2 * buckets) {
    for (std::size_t i = 0; i < count; ++i) keep(i);
    return curve;
  }
  // The ends are points of their own, and so the buckets between them are one fewer.
  const std::size_t inner = std::max<std::size_t>(1, buckets - 1);
  keep(0);
  for (std::size_t bucket = 0; bucket < inner; ++bucket) {
    const std::size_t begin = 1 + (count - 2) * bucket / inner;
    const std::size_t end = 1 + (count - 2) * (bucket + 1) / inner;
    std::size_t least = end;
    std::size_t most = end;
    std::size_t gap = end;
    for (std::size_t i = begin; i < end; ++i) {
      if (std::isnan(y[i])) {
        gap = i;
        continue;
      }
      if (least == end || y[i] < y[least]) least = i;
      if (most == end || y[i] > y[most]) most = i;
    }
    // A gap takes the place of the extreme that is nearer to the rest, so that the count holds.
    std::size_t first = gap == end ? least : gap;
    std::size_t second = most;
    if (first > second) std::swap(first, second);
    if (first < end) keep(first);
    if (second < end && second != first) keep(second);
  }
  keep(count - 1);
  return curve;
}

}  // namespace strata
