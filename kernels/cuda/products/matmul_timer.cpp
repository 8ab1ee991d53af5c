// This file measures what runs matrix products: cold operands, rounds in which all take turns, and,
// in a race, a clock that has settled and slow ones that drop out. matmul_timer.h is the contract;
// MatmulPlans calls it when a run tunes its products.

#include "kernels/cuda/products/matmul_timer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/cuda/products/matmul_data.h"
#include "src/device/cuda/memory.h"
#include "strata/base/bytes.h"

namespace strata::cuda {
namespace {

constexpr std::size_t kRegion = 256;  ///< operands begin at multiples of so many bytes
constexpr double kNever = std::numeric_limits<double>::infinity();

// A chip that has idled runs faster than it can go on: it takes about 0.2 s of products until the
// power limit holds the clock down.
constexpr double kFirstWarmUpS = 0.4;
constexpr double kWarmUpS = 0.1;
/// Products are timed in groups that take so long, so that the events' resolution does not matter.
constexpr double kShortestGroupS = 200e-6;
constexpr double kMostProducts = 64;
constexpr std::size_t kRounds = 24;
/// Slow products (f32, very large ones) get fewer rounds: none begins after so long.
constexpr double kMostRaceS = 3.0;
constexpr std::size_t kFewestRounds = 4;

/// After `rounds` rounds an algorithm that is `factor` times slower than the best drops out.
struct Cut {
  std::size_t rounds;
  double factor;
};
constexpr std::array kCuts{Cut{1, 1.30}, Cut{2, 1.15}, Cut{4, 1.06}, Cut{8, 1.03}, Cut{14, 1.015}};

using Event = Owned<cudaEvent_t, cudaEventDestroy>;

Event make_event() {
  cudaEvent_t event = nullptr;
  STRATA_CUDA_CHECK(cudaEventCreate(&event));
  return Event(event);
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return kNever;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::size_t region_bytes(std::int64_t rows, std::int64_t stride, DType dtype) {
  const std::int64_t elements = rows * std::max<std::int64_t>(stride, 1);
  return round_up(static_cast<std::size_t>(elements) * size_of(dtype), kRegion);
}

std::size_t bytes_a(const MatmulShape& s) { return region_bytes(s.rows_a(), s.stride_a, s.in); }
std::size_t bytes_b(const MatmulShape& s) { return region_bytes(s.rows_b(), s.stride_b, s.in); }
std::size_t bytes_out(const MatmulShape& s) { return region_bytes(s.m, s.stride_out, s.out); }
std::size_t bytes_bias(const MatmulShape& s) { return s.bias ? region_bytes(1, s.n, s.out) : 0; }
/// Returns the bytes of the scales of so many rows, which only codes in e4m3 have.
std::size_t bytes_scales(const MatmulShape& s, std::int64_t rows) {
  return s.in == DType::kE4M3 ? region_bytes(rows, 1, DType::kF32) : 0;
}
std::size_t bytes_of(const MatmulShape& s) {
  return bytes_a(s) + bytes_b(s) + bytes_out(s) + bytes_scales(s, s.m) + bytes_scales(s, s.n) +
         bytes_bias(s);
}

/// Returns how many products make a group that is long enough to be timed.
int group_of(double product_s) {
  return static_cast<int>(std::clamp(std::ceil(kShortestGroupS / product_s), 1.0, kMostProducts));
}

}  // namespace

/// One product among those that are timed.
struct MatmulTimer::Runner {
  const TimedProduct* product = nullptr;
  bool running = true;
  Event begin = make_event();
  Event end = make_event();
  std::vector<double> seconds{};  ///< the time of a product, one entry a round
};

TimedProduct product_by(const MatmulProblem& problem, const cublasLtMatmulAlgo_t& algorithm) {
  return [&problem, algorithm](const MatmulPlace& place, const MatmulOperands& operands) {
    return problem.launch(place, algorithm, operands);
  };
}

MatmulOperands MatmulTimer::Copies::take() {
  std::byte* at = first + bytes * next;
  next = (next + 1) % count;
  MatmulOperands operands{
      .a = at, .b = at + b_offset, .out = at + out_offset, .bias = at + bias_offset};
  if (a_scale_offset > 0) {
    operands.a_scale = reinterpret_cast<const float*>(at + a_scale_offset);
    operands.b_scale = reinterpret_cast<const float*>(at + b_scale_offset);
  }
  return operands;
}

MatmulTimer::MatmulTimer(cublasLtHandle_t handle, std::span<std::byte> workspace,
                         std::span<const MatmulShape> shapes, std::size_t memory_bytes) {
  cudaStream_t stream = nullptr;
  STRATA_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  stream_.reset(stream);
  place_ = {.handle = handle, .workspace = workspace, .stream = stream};
  int device = 0;
  int cache_bytes = 0;
  STRATA_CUDA_CHECK(cudaGetDevice(&device));
  STRATA_CUDA_CHECK(cudaDeviceGetAttribute(&cache_bytes, cudaDevAttrL2CacheSize, device));
  cold_bytes_ = 4 * static_cast<std::size_t>(cache_bytes);

  std::size_t free = 0;
  std::size_t total = 0;
  STRATA_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  // The kernels that are tried need memory for their code.
  constexpr std::size_t kForCode = 512 * kMiB;
  const std::size_t most = std::min(memory_bytes, free - std::min(free, kForCode));
  std::size_t bytes = 0;
  for (const MatmulShape& shape : shapes) {
    const std::size_t one = bytes_of(shape);
    if (one + kRegion > most) continue;
    bytes = std::max(bytes, one * std::min(wanted_copies(one), (most - kRegion) / one));
  }
  if (bytes == 0) return;
  memory_ = allocate_device(kRegion + bytes);
  hash_ = reinterpret_cast<std::uint64_t*>(memory_->data());
  pool_ = {memory_->data() + kRegion, bytes};
}

bool MatmulTimer::fits(const MatmulShape& shape) const { return bytes_of(shape) <= pool_.size(); }

std::size_t MatmulTimer::wanted_copies(std::size_t bytes) const {
  return std::max<std::size_t>(1, (cold_bytes_ + bytes - 1) / bytes);
}

MatmulTimer::Copies MatmulTimer::fill(const MatmulShape& shape, std::size_t most_copies) {
  Copies copies{.first = pool_.data(),
                .b_offset = bytes_a(shape),
                .out_offset = bytes_a(shape) + bytes_b(shape),
                .bias_offset = bytes_of(shape) - bytes_bias(shape),
                .bytes = bytes_of(shape)};
  if (shape.in == DType::kE4M3) {
    copies.a_scale_offset = copies.out_offset + bytes_out(shape);
    copies.b_scale_offset = copies.a_scale_offset + bytes_scales(shape, shape.m);
  }
  copies.count = std::min({wanted_copies(copies.bytes), pool_.size() / copies.bytes, most_copies});
  launch_random_bf16(place_.stream, pool_.first(copies.bytes * copies.count));
  if (shape.in == DType::kE4M3) {
    for (std::size_t i = 0; i < copies.count; ++i) {
      launch_random_e4m3(place_.stream, pool_.subspan(copies.bytes * i, copies.out_offset));
    }
  }
  return copies;
}

bool MatmulTimer::runs(const TimedProduct& product, const MatmulOperands& operands) const {
  if (product(place_, operands) == CUBLAS_STATUS_SUCCESS) return true;
  (void)cudaGetLastError();
  return false;
}

std::vector<MatmulTimer::Runner> MatmulTimer::start(std::span<const TimedProduct> products,
                                                    Copies& copies) const {
  std::vector<Runner> runners;
  for (const TimedProduct& product : products) {
    Runner& runner = runners.emplace_back();
    runner.product = &product;
    runner.running = runs(product, copies.take());
  }
  STRATA_CUDA_CHECK(cudaStreamSynchronize(place_.stream));
  return runners;
}

double MatmulTimer::warm_up(const Runner& runner, Copies& copies, double seconds) const {
  constexpr double kBetweenLooksS = 0.02;
  const auto begin = std::chrono::steady_clock::now();
  double mean = 0;
  for (double products = 1; mean == 0 || seconds_since(begin) < seconds;
       products = std::ceil(kBetweenLooksS / mean)) {
    const auto group = std::chrono::steady_clock::now();
    for (int i = 0; i < static_cast<int>(products); ++i) {
      STRATA_CUDA_CHECK((*runner.product)(place_, copies.take()));
    }
    STRATA_CUDA_CHECK(cudaStreamSynchronize(place_.stream));
    mean = seconds_since(group) / products;
  }
  return mean;
}

void MatmulTimer::time_round(std::vector<Runner>& runners, std::size_t first, Copies& copies,
                             int products) const {
  for (std::size_t i = 0; i < runners.size(); ++i) {
    Runner& runner = runners[(first + i) % runners.size()];
    if (!runner.running) continue;
    STRATA_CUDA_CHECK(cudaEventRecord(runner.begin.get(), place_.stream));
    for (int product = 0; product < products; ++product) {
      STRATA_CUDA_CHECK((*runner.product)(place_, copies.take()));
    }
    STRATA_CUDA_CHECK(cudaEventRecord(runner.end.get(), place_.stream));
  }
  STRATA_CUDA_CHECK(cudaStreamSynchronize(place_.stream));
  for (Runner& runner : runners) {
    if (!runner.running) continue;
    float ms = 0;
    STRATA_CUDA_CHECK(cudaEventElapsedTime(&ms, runner.begin.get(), runner.end.get()));
    runner.seconds.push_back(1e-3 * static_cast<double>(ms) / products);
  }
}

std::vector<double> MatmulTimer::race(const MatmulShape& shape,
                                      std::span<const TimedProduct> products, std::size_t kept) {
  Copies copies = fill(shape, pool_.size());
  std::vector<Runner> runners = start(products, copies);
  const auto starter = std::ranges::find(runners, true, &Runner::running);
  if (starter == runners.end()) return std::vector<double>(products.size(), kNever);
  const int group =
      group_of(warm_up(*starter, copies, std::exchange(warm_, true) ? kWarmUpS : kFirstWarmUpS));

  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t round = 0; round < kRounds; ++round) {
    if (round >= kFewestRounds && seconds_since(begin) > kMostRaceS) break;
    time_round(runners, round, copies, group);
    const auto cut = std::ranges::find(kCuts, round + 1, &Cut::rounds);
    if (cut == kCuts.end()) continue;
    double best = kNever;
    for (const Runner& r : runners) {
      if (r.running) best = std::min(best, median(r.seconds));
    }
    for (std::size_t i = kept; i < runners.size(); ++i) {
      if (median(runners[i].seconds) > cut->factor * best) runners[i].running = false;
    }
  }
  std::vector<double> medians;
  for (const Runner& r : runners) medians.push_back(r.running ? median(r.seconds) : kNever);
  return medians;
}

std::vector<double> MatmulTimer::glance(const MatmulShape& shape,
                                        std::span<const TimedProduct> products) {
  constexpr std::size_t kGroups = 3;
  Copies copies = fill(shape, pool_.size());
  std::vector<Runner> runners = start(products, copies);
  time_round(runners, 0, copies, 1);
  double one_s = kNever;
  for (Runner& r : runners) {
    if (r.running) one_s = std::min(one_s, r.seconds.front());
    r.seconds.clear();
  }
  for (std::size_t round = 0; round < kGroups; ++round) {
    time_round(runners, round, copies, group_of(one_s));
  }
  std::vector<double> best;
  for (const Runner& r : runners) {
    best.push_back(r.running ? *std::ranges::min_element(r.seconds) : kNever);
  }
  return best;
}

std::optional<std::uint64_t> MatmulTimer::fingerprint(const MatmulShape& shape,
                                                      const TimedProduct& product) {
  Copies copies = fill(shape, 1);
  const MatmulOperands operands = copies.take();
  if (!runs(product, operands)) return std::nullopt;
  launch_hash(place_.stream, {static_cast<std::byte*>(operands.out), bytes_out(shape)}, hash_);
  STRATA_CUDA_CHECK(cudaStreamSynchronize(place_.stream));
  std::uint64_t hash = 0;
  STRATA_CUDA_CHECK(cudaMemcpy(&hash, hash_, sizeof hash, cudaMemcpyDeviceToHost));
  return hash;
}

bool MatmulTimer::repeats(const MatmulShape& shape, const TimedProduct& product) {
  constexpr int kMore = 2;
  const std::optional<std::uint64_t> hash = fingerprint(shape, product);
  if (!hash) return false;
  for (int run = 0; run < kMore; ++run) {
    if (fingerprint(shape, product) != hash) return false;
  }
  return true;
}

}  // namespace strata::cuda
