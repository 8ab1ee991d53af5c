// Measures the cpu backend's matmul, per core and instruction set. Time is the process's processor
// time, so other programs on the machine disturb it little.

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "bench/matmul_bench.h"
#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"
#include "strata/base/random.h"

namespace strata::bench {
namespace {

struct Size {
  std::int64_t m, n, k;
};

/// Small models: qkv, gate-up and down projections of 512 tokens, a head, and a square.
constexpr Size kSizes[] = {{512, 768, 192},  {512, 768, 256},  {512, 1408, 256},  {512, 256, 704},
                           {4096, 256, 256}, {512, 4096, 256}, {1024, 1024, 1024}};

template <class T>
std::vector<T> random_numbers(std::uint64_t stream, std::int64_t count) {
  std::vector<T> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = T(static_cast<cpu::Accumulator<T>>(random_normal(1, stream, i)));
  }
  return x;
}

/// Median processor seconds of a call, after one to warm up, over at least 0.2 s.
template <class F>
double median_seconds(F f) {
  f();
  std::vector<double> seconds;
  double total = 0;
  while (total < 0.2) {
    const std::clock_t start = std::clock();
    f();
    seconds.push_back(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    total += seconds.back();
  }
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

template <cpu::Compute X>
double gflops(const cpu::Context& context, const Size& s, MatmulLayout layout) {
  const auto a = random_numbers<X>(1, s.m * s.k);
  const auto b = random_numbers<X>(2, s.n * s.k);
  std::vector<cpu::Accumulator<X>> out(static_cast<std::size_t>(s.m * s.n));
  const bool a_transposed = layout == MatmulLayout::kTN;
  const bool b_transposed = layout == MatmulLayout::kNT;
  Matmul op;
  op.a = {a.data(), kDTypeOf<X>, a_transposed ? Shape{s.k, s.m} : Shape{s.m, s.k}};
  op.b = {b.data(), kDTypeOf<X>, b_transposed ? Shape{s.n, s.k} : Shape{s.k, s.n}};
  op.out = {out.data(), kDTypeOf<cpu::Accumulator<X>>, {s.m, s.n}};
  op.layout = layout;
  op.update = a_transposed ? MatmulUpdate::kAccumulate : MatmulUpdate::kOverwrite;
  op.check();
  const double seconds = median_seconds([&] { cpu::execute(context, op); });
  return 2.0 * static_cast<double>(s.m * s.n * s.k) / seconds / 1e9;
}

template <cpu::Compute X>
void measure(const cpu::Context& context, const std::string& only, nlohmann::json& rows) {
  for (const Size& s : kSizes) {
    std::array<char, 64> name{};
    std::snprintf(name.data(), name.size(), "%-8s %-4s %5lld x %5lld x %5lld",
                  context.simd.name.data(), name_of(kDTypeOf<X>).data(),
                  static_cast<long long>(s.m), static_cast<long long>(s.n),
                  static_cast<long long>(s.k));
    if (std::string(name.data()).find(only) == std::string::npos) continue;
    const double nt = gflops<X>(context, s, MatmulLayout::kNT);
    const double nn = gflops<X>(context, s, MatmulLayout::kNN);
    const double tn = gflops<X>(context, s, MatmulLayout::kTN);
    std::printf("%s %8.1f %8.1f %8.1f\n", name.data(), nt, nn, tn);
    rows.push_back(
        {{"name", name.data()}, {"nt_gflops", nt}, {"nn_gflops", nn}, {"tn_gflops", tn}});
  }
}

}  // namespace

nlohmann::json bench_cpu(const MatmulBenchOptions& options) {
  ThreadPool pool(options.threads);
  const std::string wanted =
      options.simd.empty() ? std::string(cpu::usable_simd().back()->name) : options.simd;
  std::printf("GFLOP/s per core, %d threads; m x n x k and layouts\n", pool.threads());
  std::printf("%-8s %-4s %21s %8s %8s %8s\n", "", "", "", "NT", "NN", "TN +=");
  nlohmann::json rows = nlohmann::json::array();
  for (const cpu::SimdKernels* simd : cpu::usable_simd()) {
    if (simd->name != wanted) continue;
    measure<float>({pool, *simd}, options.only, rows);
    measure<Bf16>({pool, *simd}, options.only, rows);
    measure<double>({pool, *simd}, options.only, rows);
  }
  return rows;
}

}  // namespace strata::bench
