// Measures the speed of the cuda backend's attention, causal rows in bf16, by the kernels for this
// device (the backward deterministic and fast), the portable ones and, if this program has it,
// cuDNN.
//   attention_bench [--only TEXT] [--json FILE]     (TEXT: part of a shape as it is printed)
// Shapes are rows x length, heads / kv heads, head dim; with "documents of n" rows are cut into
// documents of n tokens that attend within themselves, with "mixed documents" into documents of
// many lengths, which "as loaded" come through the loader and the batch store instead of an exact
// table: those lines are to be within 5 % of the others. With "window n" a query sees n keys, and
// FLOPs are those of its pairs: such a line is to be within 10 % of the same rows'. TFLOP/s are
// medians of many runs between CUDA events, after runs to warm up. FLOPs are 4 * length^2 * heads *
// head_dim / 2 forward (half of the scores are masked) for each row or document, 2.5 times as many
// backward. The last columns are what turning dq and dk back adds to the deterministic backward of
// the own kernels, and what Rope takes to do so, in per cent of it.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bench/program.h"
#include "bench/times.h"
#include "strata/base/bytes.h"
#include "strata/device/allocator.h"
#include "strata/device/arena.h"
#include "strata/ops/backend.h"
#include "strata/store/batch_store.h"
#include "support/listed_tokens.h"

namespace {

using namespace strata;
using bench::Times;

constexpr int kWarmUps = 5;
constexpr int kRuns = 20;
constexpr int kRounds = 5;  ///< where parts of a per cent count: clocks sink under load

constexpr std::int64_t kMixed = -1;
constexpr std::int64_t kMixedLengths[] = {640, 2900, 137, 411, 1777, 56, 1023, 300, 2205, 85, 950};

struct Case {
  std::int64_t rows, length, heads, kv_heads, head_dim;
  std::int64_t document = 0;  ///< tokens of a document, or kMixed; 0: rows are not cut
  bool loaded = false;        ///< the table is the batch store's
  std::int64_t window = 0;    ///< 0: none
  [[nodiscard]] std::int64_t tokens() const { return rows * length; }
  [[nodiscard]] std::int64_t width() const { return (heads + 2 * kv_heads) * head_dim; }
  /// Of the rows, or of their documents.
  [[nodiscard]] std::vector<std::int64_t> lengths() const {
    std::vector<std::int64_t> result;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t left = length; left > 0; left -= result.back()) {
        const std::int64_t next = document == kMixed
                                      ? kMixedLengths[result.size() % std::size(kMixedLengths)]
                                      : (document > 0 ? document : length);
        result.push_back(std::min(next, left));
      }
    }
    return result;
  }
};

constexpr Case kCases[] = {{16, 1024, 32, 32, 128},
                           {8, 2048, 32, 32, 128},
                           {4, 4096, 32, 32, 128},
                           {2, 8192, 32, 32, 128},
                           {1, 16384, 32, 32, 128},
                           {1, 32768, 32, 8, 128},
                           {1, 32768, 32, 8, 128, 0, false, 4096},
                           {4, 4096, 16, 16, 128},
                           {4, 4096, 40, 40, 128},
                           {4, 4096, 32, 8, 128},
                           {2, 4096, 64, 8, 128},
                           {4, 4096, 32, 32, 64},
                           {4, 4096, 32, 8, 64},
                           {4, 4096, 16, 16, 256},
                           {4, 4096, 8, 4, 256},
                           {2, 8192, 16, 16, 256},
                           {2, 8192, 32, 32, 128, 2048},
                           {2, 8192, 32, 32, 128, 1024},
                           {2, 8192, 32, 32, 128, kMixed},
                           {2, 8192, 32, 8, 128, kMixed},
                           {1, 8192, 32, 32, 128, kMixed},
                           {1, 8192, 32, 32, 128, kMixed, true},
                           {5, 8192, 32, 8, 128, kMixed},
                           {5, 8192, 32, 8, 128, kMixed, true}};

/// One shape's tensors. The inputs are random: zeros run faster than real data.
struct Tensors {
  Arena device;
  Arena staging;
  std::byte* qkv;
  std::byte* d_qkv;
  TensorView d_o;
  TensorView dq_sum;
  RopeAngles rotation;
  Rope rope;  ///< of dq and dk
  AttentionForward forward;
  AttentionBackward backward;
  std::optional<BatchStore> batches;  ///< of a case that is loaded
  BatchLease batch;

  Tensors(Backend& backend, const Case& c)
      : device(*backend.device, Space::kDevice, bytes(c), "attention"),
        staging(*backend.device, Space::kPinned, bytes(c), "inputs"),
        qkv(device.allocate("qkv", qkv_bytes(c))),
        d_qkv(device.allocate("gradients", qkv_bytes(c))) {
    const Shape per_query{c.heads, c.tokens()};
    const Shape shape{c.tokens(), c.heads, c.head_dim};
    const auto allocate = [&](DType dtype, const Shape& of) {
      return device.allocate_tensor("tensor", dtype, of);
    };
    std::tie(forward.q, forward.k, forward.v) = columns(qkv, c);
    forward.segments = segments(backend, c);
    forward.o = allocate(DType::kBF16, shape);
    forward.lse = allocate(DType::kF32, per_query);
    forward.scale = 1 / std::sqrt(static_cast<double>(c.head_dim));
    forward.window = c.window;
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
    dq_sum = allocate(DType::kF32, shape);
    backward.scale = forward.scale;
    backward.window = forward.window;
    make_rotation(backend, c);
    fill(backend, c);
  }

  [[nodiscard]] static std::size_t qkv_bytes(const Case& c) {
    return static_cast<std::size_t>(c.tokens() * c.width()) * size_of(DType::kBF16);
  }
  [[nodiscard]] static std::size_t bytes(const Case& c) {
    const auto per_query = static_cast<std::size_t>(c.tokens() * c.heads);
    const auto o_bytes = per_query * static_cast<std::size_t>(c.head_dim) * size_of(DType::kBF16);
    const auto angles = static_cast<std::size_t>(c.length * c.head_dim) * size_of(DType::kF32);
    const auto positions = static_cast<std::size_t>(c.tokens()) * size_of(DType::kI32);
    return 2 * (qkv_bytes(c) + 2 * o_bytes + per_query * size_of(DType::kF32)) + angles +
           positions + (c.loaded ? batch_bytes(c) : 0) + kMiB;
  }
  /// More than the batch store takes of either arena.
  [[nodiscard]] static std::size_t batch_bytes(const Case& c) {
    constexpr std::size_t kTokenInts = 4 + kSegmentColumns;
    return (BatchStore::kDeviceSlots + 1) * static_cast<std::size_t>(c.tokens()) * kTokenInts *
           sizeof(std::int32_t);
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
  AttentionSegments segments(Backend& backend, const Case& c) {
    AttentionSegments result;
    if (c.document == 0) {
      result.uniform_length = c.length;
      return result;
    }
    if (c.loaded) return loaded_segments(backend, c);
    const std::vector<std::int64_t> lengths = c.lengths();
    const auto count = static_cast<std::int64_t>(lengths.size());
    const TensorView table = device.allocate_tensor("segments", DType::kI32, {count, 5});
    const TensorView host = staging.allocate_tensor("segments", DType::kI32, {count, 5});
    auto* entry = host.as<std::int32_t>();
    std::int32_t begin = 0;
    for (const std::int64_t n : lengths) {
      const auto length = static_cast<std::int32_t>(n);
      for (const std::int32_t x : {begin, begin, length, length, 0}) *entry++ = x;
      begin += length;
    }
    backend.device->stream(Lane::kCompute)
        .copy(table.data, host.data,
              static_cast<std::size_t>(host.elements()) * sizeof(std::int32_t), {});
    result.table = table;
    result.self_attention = true;
    return result;
  }
  /// Has tokens of the case's documents loaded as a training run has them.
  AttentionSegments loaded_segments(Backend& backend, const Case& c) {
    constexpr std::int32_t kEnd = 1;
    std::vector<std::int32_t> ids;
    for (const std::int64_t length : c.lengths()) {
      ids.insert(ids.end(), static_cast<std::size_t>(length - 1), 0);
      ids.push_back(kEnd);
    }
    ids.push_back(0);  // the last target
    const ListedTokens tokens(std::move(ids), kEnd);
    const BatchShape shape{.rows = c.rows, .tokens = c.length, .sub_batches = 1};
    ThreadPool pool(1);
    BatchLoader loader(tokens,
                       {.shape = shape,
                        .mask = DocumentMask::kOn,
                        .sample_order = SampleOrder::kOnce,
                        .vocabulary = kEnd + 1},
                       pool);
    Arenas arenas(device, staging, staging);
    batches.emplace(BatchStoreShape{.batch = shape, .mask = DocumentMask::kOn, .host_slots = 1},
                    arenas);
    loader.fill_pass(0, 0, batches->host(0));
    batch = batches->upload(0, backend.device->stream(Lane::kCompute), {});
    return batch.cells.front().segments;
  }
  void make_rotation(Backend& backend, const Case& c) {
    const auto copy = [&](DType dtype, const Shape& shape, auto value) {
      const TensorView host = staging.allocate_tensor("angles", dtype, shape);
      auto* to = host.as<decltype(value(std::int64_t{}))>();
      for (std::int64_t i = 0; i < shape.elements(); ++i) to[i] = value(i);
      const TensorView view = device.allocate_tensor("angles", dtype, shape);
      backend.device->stream(Lane::kCompute).copy(view.data, host.data, host.bytes().bytes, {});
      return view;
    };
    const Shape table{c.length, c.head_dim / 2};
    rotation.positions = copy(DType::kI32, {c.tokens()}, [&](std::int64_t i) {
      return static_cast<std::int32_t>(i % c.length);
    });
    rotation.cos =
        copy(DType::kF32, table, [](std::int64_t i) { return std::cos(static_cast<float>(i)); });
    rotation.sin =
        copy(DType::kF32, table, [](std::int64_t i) { return std::sin(static_cast<float>(i)); });
    rope = {.x = TensorView(d_qkv, DType::kBF16, {c.tokens(), c.heads + c.kv_heads, c.head_dim},
                            c.width()),
            .positions = rotation.positions,
            .cos = rotation.cos,
            .sin = rotation.sin,
            .direction = RopeDirection::kBackward};
  }
  void fill(Backend& backend, const Case& c) {
    auto* to = reinterpret_cast<Bf16*>(staging.allocate("inputs", qkv_bytes(c)));
    bench::fill_normals(to, qkv_bytes(c) / sizeof(Bf16));
    Stream& stream = backend.device->stream(Lane::kCompute);
    stream.copy(qkv, to, qkv_bytes(c), {});
    stream.copy(d_o.data, to, static_cast<std::size_t>(d_o.elements()) * sizeof(Bf16), {});
    backend.device->synchronize();
  }
};

/// Kernels of one choice on the device.
struct Contestant {
  Times times;
  Backend backend;

  explicit Contestant(AttentionKernels kernels)
      : backend(make_backend(BackendKind::kCuda,
                             {.device = {.trace = &times}, .threads = 1, .attention = kernels})) {}

  template <Op O>
  double median_ms(const O& op) {
    Stream& stream = backend.device->stream(Lane::kCompute);
    for (int i = 0; i < kWarmUps; ++i) backend.kernels->run(stream, op, {});
    backend.device->synchronize();
    times.start();
    for (int i = 0; i < kRuns; ++i) backend.kernels->run(stream, op, {});
    backend.device->synchronize();
    return times.stop();
  }
};

std::string name_of(const Case& c) {
  std::string name = std::to_string(c.rows) + " x " + std::to_string(c.length) + ", " +
                     std::to_string(c.heads) + " / " + std::to_string(c.kv_heads) + ", " +
                     std::to_string(c.head_dim);
  if (c.document == kMixed) name += ", mixed documents";
  if (c.document > 0) name += ", documents of " + std::to_string(c.document);
  if (c.loaded) name += ", as loaded";
  if (c.window > 0) name += ", window " + std::to_string(c.window);
  return name;
}

struct Speeds {
  double forward = 0, backward = 0, fast = 0;  ///< TFLOP/s
  double turning = 0, rope = 0;                ///< time, as part of the backward's
};

Speeds measure(Contestant& contestant, const Case& c, bool all) {
  const Tensors tensors(contestant.backend, c);
  double flops = 0;
  for (const std::int64_t length : c.lengths()) {
    const std::int64_t hidden = c.window > 0 ? std::max<std::int64_t>(length - c.window, 0) : 0;
    const std::int64_t pairs = (length * length - hidden * hidden) / 2;
    flops += 4 * static_cast<double>(pairs * c.heads * c.head_dim) * 1e-9;
  }
  Speeds speeds;
  speeds.forward = flops / contestant.median_ms(tensors.forward);
  AttentionBackward backward = tensors.backward;
  const double backward_ms = contestant.median_ms(backward);
  speeds.backward = 2.5 * flops / backward_ms;
  if (!all) return speeds;
  AttentionBackward turning = backward;
  turning.rotation = tensors.rotation;
  std::vector<double> plain_ms;
  std::vector<double> turning_ms;
  std::vector<double> rope_ms;
  for (int round = 0; round < kRounds; ++round) {
    plain_ms.push_back(contestant.median_ms(backward));
    turning_ms.push_back(contestant.median_ms(turning));
    rope_ms.push_back(contestant.median_ms(tensors.rope));
  }
  const double plain = bench::median(plain_ms);
  speeds.turning = bench::median(turning_ms) / plain - 1;
  speeds.rope = bench::median(rope_ms) / plain;
  backward.dq_sum = tensors.dq_sum;
  speeds.fast = 2.5 * flops / contestant.median_ms(backward);
  return speeds;
}

void run(const bench::Options& options) {
  Contestant own(AttentionKernels::kAuto);
  Contestant portable(AttentionKernels::kPortable);
  std::optional<Contestant> cudnn;
  try {
    cudnn.emplace(AttentionKernels::kCudnn);
  } catch (const std::exception& error) {
    std::printf("without cuDNN: %s\n", error.what());
  }
  const std::string device = own.backend.device->info().name;
  std::printf("%s; TFLOP/s, medians of %d runs: forward, backward, fast backward\n", device.c_str(),
              kRuns);
  std::printf("%-48s %-15s %-11s %-15s %-15s %s\n", "rows x length, heads / kv heads, head dim",
              "own", "portable", "cuDNN", "own of cuDNN", "of the fastest, turning, Rope");
  nlohmann::json results = nlohmann::json::array();
  for (const Case& c : kCases) {
    const std::string name = name_of(c);
    if (name.find(options.only) == std::string::npos) continue;
    const Speeds a = measure(own, c, true);
    const bool on_tensor_cores = c.head_dim <= 128;  // else it is plain arithmetic, for minutes
    const Speeds b = on_tensor_cores ? measure(portable, c, false) : Speeds{};
    const bool compares = cudnn && c.document == 0 && c.window == 0;
    const Speeds l = compares ? measure(*cudnn, c, true) : Speeds{};
    std::printf("%-48s %4.0f %4.0f %4.0f  %4.0f %4.0f   ", name.c_str(), a.forward, a.backward,
                a.fast, b.forward, b.backward);
    if (compares) {
      std::printf("%4.0f %4.0f %4.0f  %.2f %.2f %.2f  ", l.forward, l.backward, l.fast,
                  a.forward / l.forward, a.backward / l.backward, a.fast / l.fast);
    } else {
      std::printf("%34s", "");
    }
    std::printf("%.2f  %4.1f %4.1f\n", a.backward / std::max(a.backward, a.fast), 100 * a.turning,
                100 * a.rope);
    std::fflush(stdout);
    nlohmann::json result{{"shape", name},
                          {"forward_tflops", a.forward},
                          {"backward_tflops", a.backward},
                          {"fast_backward_tflops", a.fast},
                          {"turning_of_backward", a.turning},
                          {"rope_of_backward", a.rope},
                          {"portable_forward_tflops", b.forward},
                          {"portable_backward_tflops", b.backward}};
    if (compares) {
      result["cudnn_forward_tflops"] = l.forward;
      result["cudnn_backward_tflops"] = l.backward;
      result["cudnn_fast_backward_tflops"] = l.fast;
    }
    results.push_back(std::move(result));
  }
  bench::write_json(options.json, {{"device", device}, {"results", results}});
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program("attention_bench",
                            [&] { run(bench::parse_options("attention_bench", argc, argv)); });
}
