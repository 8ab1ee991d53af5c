// Speed of the cuda backend's attention, forward and backward, causal rows in bf16.
//   attention_bench [rows length heads kv_heads head_dim]     (default: a table of shapes)
// Milliseconds are the median of many runs between CUDA events, after runs to warm up. FLOPs are
// 4 * rows * length^2 * heads * head_dim / 2 forward (half of the scores are masked), 2.5 times as
// many backward.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <tuple>

#include "bench/times.h"
#include "strata/base/bytes.h"
#include "strata/device/arena.h"
#include "strata/ops/backend.h"

namespace {

using namespace strata;
using bench::Times;

constexpr int kWarmUps = 5;
constexpr int kRuns = 40;

struct Case {
  std::int64_t rows, length, heads, kv_heads, head_dim;
  [[nodiscard]] std::int64_t tokens() const { return rows * length; }
  [[nodiscard]] std::int64_t width() const { return (heads + 2 * kv_heads) * head_dim; }
};

constexpr Case kCases[] = {{16, 1024, 32, 32, 128}, {8, 2048, 32, 32, 128},  {4, 4096, 32, 32, 128},
                           {2, 8192, 32, 32, 128},  {1, 16384, 32, 32, 128}, {4, 4096, 32, 8, 128},
                           {2, 4096, 64, 8, 128},   {4, 4096, 32, 32, 64},   {4, 4096, 32, 8, 64}};

/// One shape's tensors. The inputs are random: zeros run faster than real data.
struct Tensors {
  Arena device;
  Arena staging;
  std::byte* qkv;
  std::byte* d_qkv;
  TensorView d_o;
  AttentionForward forward;
  AttentionBackward backward;

  Tensors(Backend& backend, const Case& c)
      : device(*backend.device, Space::kDevice, bytes(c), "attention"),
        staging(*backend.device, Space::kPinned, qkv_bytes(c), "inputs"),
        qkv(device.allocate("qkv", qkv_bytes(c))),
        d_qkv(device.allocate("gradients", qkv_bytes(c))) {
    const Shape per_query{c.heads, c.tokens()};
    const Shape shape{c.tokens(), c.heads, c.head_dim};
    const auto allocate = [&](DType dtype, const Shape& of) {
      const auto size = static_cast<std::size_t>(of.elements()) * size_of(dtype);
      return TensorView(device.allocate("tensor", size), dtype, of);
    };
    std::tie(forward.q, forward.k, forward.v) = columns(qkv, c);
    forward.segments.uniform_length = c.length;
    forward.o = allocate(DType::kBF16, shape);
    forward.lse = allocate(DType::kF32, per_query);
    forward.scale = 1 / std::sqrt(static_cast<double>(c.head_dim));
    d_o = allocate(DType::kBF16, shape);
    backward.d_o = d_o;
    backward.q = forward.q;
    backward.k = forward.k;
    backward.v = forward.v;
    backward.o = forward.o;
    backward.lse = forward.lse;
    backward.segments = forward.segments;
    std::tie(backward.dq, backward.dk, backward.dv) = columns(d_qkv, c);
    backward.delta = allocate(DType::kF32, per_query);
    backward.scale = forward.scale;
    fill(backend, c);
  }

  [[nodiscard]] static std::size_t qkv_bytes(const Case& c) {
    return static_cast<std::size_t>(c.tokens() * c.width()) * size_of(DType::kBF16);
  }
  [[nodiscard]] static std::size_t bytes(const Case& c) {
    const auto per_query = static_cast<std::size_t>(c.tokens() * c.heads);
    const auto o_bytes = per_query * static_cast<std::size_t>(c.head_dim) * size_of(DType::kBF16);
    return 2 * (qkv_bytes(c) + o_bytes + per_query * size_of(DType::kF32)) + kMiB;
  }
  /// q, k and v as columns of one tensor.
  [[nodiscard]] static std::tuple<TensorView, TensorView, TensorView> columns(std::byte* data,
                                                                              const Case& c) {
    const auto part = [&](std::int64_t first_head, std::int64_t heads) {
      const auto offset = static_cast<std::size_t>(first_head * c.head_dim) * size_of(DType::kBF16);
      return TensorView(data + offset, DType::kBF16, {c.tokens(), heads, c.head_dim}, c.width());
    };
    return {part(0, c.heads), part(c.heads, c.kv_heads), part(c.heads + c.kv_heads, c.kv_heads)};
  }

 private:
  void fill(Backend& backend, const Case& c) {
    auto* to = reinterpret_cast<Bf16*>(staging.allocate("inputs", qkv_bytes(c)));
    bench::fill_normals(to, qkv_bytes(c) / sizeof(Bf16));
    Stream& stream = backend.device->stream(Lane::kCompute);
    stream.copy(qkv, to, qkv_bytes(c), {});
    stream.copy(d_o.data, to, static_cast<std::size_t>(d_o.elements()) * sizeof(Bf16), {});
    backend.device->synchronize();
  }
};

template <Op O>
double median_ms(Backend& backend, Times& times, const O& op) {
  Stream& stream = backend.device->stream(Lane::kCompute);
  for (int i = 0; i < kWarmUps; ++i) backend.kernels->run(stream, op, {});
  backend.device->synchronize();
  times.start();
  for (int i = 0; i < kRuns; ++i) backend.kernels->run(stream, op, {});
  backend.device->synchronize();
  return times.stop();
}

void measure(Backend& backend, Times& times, const Case& c) {
  const Tensors tensors(backend, c);
  const double length = static_cast<double>(c.length);
  const double flops = 4 * static_cast<double>(c.rows * c.heads * c.head_dim) * length * length / 2;
  const double forward_ms = median_ms(backend, times, tensors.forward);
  const double backward_ms = median_ms(backend, times, tensors.backward);
  std::printf("%4lld %7lld %6lld %9lld %9lld %9.3f %6.0f %9.3f %6.0f\n",
              static_cast<long long>(c.rows), static_cast<long long>(c.length),
              static_cast<long long>(c.heads), static_cast<long long>(c.kv_heads),
              static_cast<long long>(c.head_dim), forward_ms, flops / forward_ms * 1e-9,
              backward_ms, 2.5 * flops / backward_ms * 1e-9);
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  Times times;
  Backend backend = make_backend(BackendKind::kCuda, {.device = {.trace = &times}, .threads = 1});
  std::printf("%s; ms are medians of %d runs, then TFLOP/s\n", backend.device->info().name.c_str(),
              kRuns);
  std::printf("rows  length  heads  kv heads  head dim   forward          backward\n");
  if (argc == 6) {
    const auto number = [&](int i) { return std::int64_t{std::atoll(argv[i])}; };
    measure(backend, times, {number(1), number(2), number(3), number(4), number(5)});
  } else {
    for (const Case& c : kCases) measure(backend, times, c);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attention_bench: %s\n", error.what());
    return 1;
  }
}
