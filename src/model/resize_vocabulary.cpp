// Makes rows of weights for new tokens: the mean of the rows that are there. It is what
// transformers begins with as well, which then draws new rows from a narrow normal distribution
// around it. Rows that are equal do not stay so: each token learns from its own places.

#include "strata/model/resize_vocabulary.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/text.h"
#include "strata/model/weights_check.h"

namespace strata {
namespace {

std::vector<double> mean_row(const SafetensorsDirectory& weights, const std::string& name,
                             std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kChunkElements = 1 << 20;
  const std::int64_t most = std::max<std::int64_t>(1, kChunkElements / columns);
  std::vector<double> mean(static_cast<std::size_t>(columns));
  std::vector<double> values;
  for (std::int64_t row = 0; row < rows; row += most) {
    values.resize(static_cast<std::size_t>(std::min(most, rows - row) * columns));
    weights.read(name, row * columns, std::span(values));
    require_finite(name, row * columns, std::span<const double>(values));
    for (std::size_t at = 0; at < values.size(); at += mean.size()) {
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += values[at + i];
    }
  }
  for (double& value : mean) value /= static_cast<double>(rows);
  return mean;
}

}  // namespace

void resize_vocabulary(SafetensorsDirectory& weights, std::int64_t from, std::int64_t to) {
  for (const std::string_view each : {kEmbeddingName, kHeadName}) {
    const std::string name(each);
    if (name == kHeadName && !weights.contains(name)) continue;
    const std::vector<std::int64_t> shape = weights.info(name).shape;
    if (shape.size() != 2 || shape[0] != from || shape[1] < 1) {
      throw IoError("weights: tensor " + name + " has not the " + format_count(from) +
                    " rows that config.json says; its model cannot get more");
    }
    weights.append_rows(name, to - from, mean_row(weights, name, from, shape[1]));
  }
}

}  // namespace strata
