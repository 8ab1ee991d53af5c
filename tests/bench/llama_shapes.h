// The shapes of LLaMA models for benchmarks of operators, and how their rows are named.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace strata::bench {

inline constexpr double kBf16 = 2;  ///< bytes
inline constexpr double kF32 = 4;

/// Shapes of one model, and tokens of a sub-batch: 8192, or more where [N, C] is below 64 MiB.
struct Model {
  const char* name;
  std::int64_t tokens, hidden, ffn, heads, kv_heads, vocabulary;
  static constexpr std::int64_t kHeadDim = 128;
  [[nodiscard]] std::int64_t kv() const { return kv_heads * kHeadDim; }
  [[nodiscard]] std::int64_t layer_parameters() const {
    return hidden * (2 * hidden + 2 * kv()) + 3 * hidden * ffn;
  }
};

inline constexpr Model kModels[] = {{"1.3B", 16384, 2048, 5504, 16, 16, 32000},
                                    {"7B", 8192, 4096, 11008, 32, 32, 32000},
                                    {"8B", 8192, 4096, 14336, 32, 8, 128256},
                                    {"13B", 8192, 5120, 13824, 40, 40, 32000},
                                    {"70B", 8192, 8192, 28672, 64, 8, 32000}};

inline std::string text(const char* format, auto... values) {
  char buffer[80];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

inline long long number(std::int64_t x) { return x; }
inline double count(std::int64_t x) { return static_cast<double>(x); }

}  // namespace strata::bench
