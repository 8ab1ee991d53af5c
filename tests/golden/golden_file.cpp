// Reads golden tensors as f64 and measures distances by the relative 2-norm.

#include "golden/golden_file.h"

#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>

#include "support/places.h"

namespace strata::test {

std::filesystem::path golden_data() { return goldens_folder(); }

Shape GoldenFile::shape(const std::string& name) const {
  const std::vector<std::int64_t>& extents = file_.info(name).shape;
  switch (extents.size()) {
    case 1: return {extents[0]};
    case 2: return {extents[0], extents[1]};
    case 3: return {extents[0], extents[1], extents[2]};
    default: throw std::length_error(name + " does not have 1 to 3 dimensions");
  }
}

std::vector<double> GoldenFile::values(const std::string& name) const {
  const StoredTensor& info = file_.info(name);
  if (info.dtype == StoredType::kI32) {
    const std::vector<std::int32_t> whole = integers(name);
    return {whole.begin(), whole.end()};
  }
  std::vector<double> values(static_cast<std::size_t>(info.elements));
  file_.read(name, 0, std::span(values));
  return values;
}

std::vector<std::int32_t> GoldenFile::integers(const std::string& name) const {
  std::vector<std::int32_t> values(static_cast<std::size_t>(file_.info(name).elements));
  file_.read(name, 0, std::span(values));
  return values;
}

double distance(const std::vector<double>& value, const std::vector<double>& reference) {
  if (value.size() != reference.size()) {
    return std::numeric_limits<double>::infinity();
  }
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < value.size(); ++i) {
    difference += (value[i] - reference[i]) * (value[i] - reference[i]);
    norm += reference[i] * reference[i];
  }
  return std::sqrt(norm > 0 ? difference / norm : difference);
}

}  // namespace strata::test
