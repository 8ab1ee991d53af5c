// The parts of matmul_bench, one for each kind of backend.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace strata::bench {

struct MatmulBenchOptions {
  int threads = 1;   ///< cpu
  std::string simd;  ///< cpu: portable, avx2 or avx512; empty: the best this processor has
  std::string only;  ///< rows whose name contains this
};

/// Each prints a table and returns its rows as an array of objects.
[[nodiscard]] nlohmann::json bench_cpu(const MatmulBenchOptions& options);
/// For a backend that chooses algorithms.
[[nodiscard]] nlohmann::json bench_tuned(const MatmulBenchOptions& options);

}  // namespace strata::bench
