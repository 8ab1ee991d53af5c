// Muon and AdamW in f64, worked out for one tensor as the papers write them: the reference of tests
// of Muon.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "strata/model/ids.h"

namespace strata::test {

inline constexpr double kMuonLr = 0.02;
inline constexpr double kMuonDecay = 0.1;
inline constexpr double kMuonMomentum = 0.95;

/// A matrix of rows of numbers.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> values;

  [[nodiscard]] double at(std::int64_t i, std::int64_t j) const {
    return values[static_cast<std::size_t>(i * columns + j)];
  }
};

inline Matrix transposed(const Matrix& a) {
  Matrix t{.rows = a.columns, .columns = a.rows, .values = {}};
  for (std::int64_t i = 0; i < t.rows; ++i) {
    for (std::int64_t j = 0; j < t.columns; ++j) t.values.push_back(a.at(j, i));
  }
  return t;
}

inline Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c{.rows = a.rows, .columns = b.columns, .values = {}};
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.columns; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < a.columns; ++k) sum += a.at(i, k) * b.at(k, j);
      c.values.push_back(sum);
    }
  }
  return c;
}

/// Returns x a + y b.
inline Matrix combined(const Matrix& x, double a, const Matrix& y, double b) {
  Matrix sum = x;
  for (std::size_t i = 0; i < sum.values.size(); ++i) {
    sum.values[i] = a * x.values[i] + b * y.values[i];
  }
  return sum;
}

inline double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

/// Returns what five Newton-Schulz steps make of a direction (Jordan et al., 2024).
inline Matrix orthogonalised(const Matrix& direction) {
  const bool high = direction.rows > direction.columns;
  Matrix x = high ? transposed(direction) : direction;
  const double norm = std::max(norm_of(x.values), 1e-7);
  for (double& value : x.values) value /= norm;
  for (int step = 0; step < 5; ++step) {
    const Matrix gram = product(x, transposed(x));
    const Matrix polynomial = combined(gram, -4.7750, product(gram, gram), 2.0315);
    x = combined(x, 3.4445, product(polynomial, x), 1);
  }
  return high ? transposed(x) : x;
}

/// One tensor of the model, and its state in f64.
struct MuonTensor {
  std::string name;
  BlockId block{};
  std::int64_t begin = 0;  ///< in the block
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> w, m, v;

  [[nodiscard]] bool is_matrix() const { return name.ends_with("_proj.weight"); }
  [[nodiscard]] double lr() const {
    return name.ends_with(".k_proj.weight") ? kMuonLr / 2 : kMuonLr;
  }
  [[nodiscard]] double decay() const {
    return name.find("norm") != std::string::npos || name.ends_with(".bias") ? 0 : kMuonDecay;
  }
  [[nodiscard]] std::vector<double> part_of(const std::vector<double>& block_values) const {
    const auto first = block_values.begin() + begin;
    return {first, first + rows * columns};
  }

  /// Makes update number t (from 1) by a clipped gradient.
  void update(const std::vector<double>& g, int t) {
    if (is_matrix()) return update_whole(g);
    for (std::size_t i = 0; i < w.size(); ++i) {
      m[i] = 0.9 * m[i] + 0.1 * g[i];
      v[i] = 0.95 * v[i] + 0.05 * g[i] * g[i];
      const double u =
          m[i] / (1 - std::pow(0.9, t)) / (std::sqrt(v[i] / (1 - std::pow(0.95, t))) + 1e-8);
      w[i] -= lr() * (decay() * w[i] + u);
    }
  }

 private:
  void update_whole(const std::vector<double>& g) {
    Matrix direction{.rows = rows, .columns = columns, .values = g};
    for (std::size_t i = 0; i < g.size(); ++i) {
      m[i] = kMuonMomentum * m[i] + g[i];
      direction.values[i] += kMuonMomentum * m[i];
    }
    const Matrix o = orthogonalised(direction);
    const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
    for (std::size_t i = 0; i < w.size(); ++i) {
      w[i] -= lr() * (decay() * w[i] + scale * o.values[i]);
    }
  }
};

}  // namespace strata::test
