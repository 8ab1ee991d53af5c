// Speed of the cuda backend's memory-bound operators at the shapes of LLaMA models, in TB/s, and as
// a fraction of what a copy within device memory reaches in the same run.
//   kernel_bench [--only TEXT] [--json FILE]     (TEXT: part of an operator's name or of a model's)
// Bytes are those that must be read and written once. Each figure is the median over groups of runs
// back to back, after groups to warm up; the runs of a group take turns with sets of tensors that
// are together far larger than the L2 cache, so each finds its inputs in device memory. Groups
// start behind a copy that takes longer than launching them.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "bench/device_pool.h"
#include "bench/times.h"
#include "strata/base/bytes.h"
#include "strata/base/random.h"
#include "strata/ops/backend.h"

namespace {

using namespace strata;

constexpr int kWarmUpGroups = 3;
constexpr int kGroups = 20;
constexpr std::size_t kRunsPerGroup = 8;
/// Of all sets of one case: many times the L2 cache.
constexpr std::size_t kColdBytes = 512 * kMiB;
/// Of the largest case: the optimizer state of one layer of the 70B model.
constexpr std::size_t kPoolBytes = 16 * kGiB;
/// Takes longer to copy than a group to launch.
constexpr std::size_t kHoldBytes = 512 * kMiB;
constexpr std::int64_t kSequence = 4096;
constexpr double kBf16 = 2;
constexpr double kF32 = 4;

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

constexpr Model kModels[] = {{"1.3B", 16384, 2048, 5504, 16, 16, 32000},
                             {"7B", 8192, 4096, 11008, 32, 32, 32000},
                             {"8B", 8192, 4096, 14336, 32, 8, 128256},
                             {"13B", 8192, 5120, 13824, 40, 40, 32000},
                             {"70B", 8192, 8192, 28672, 64, 8, 32000}};

struct Options {
  std::string only;
  std::string json;
};

class KernelBench {
 public:
  KernelBench(Backend& backend, bench::Times& times, Options options)
      : backend_(backend),
        times_(times),
        options_(std::move(options)),
        pool_(backend, kPoolBytes),
        hold_arena_(*backend.device, Space::kDevice, 2 * kHoldBytes, "copies"),
        hold_(hold_arena_.allocate("copies", 2 * kHoldBytes)) {}

  void run();

 private:
  using Views = std::vector<TensorView>;

  /// One operator at one shape. `make` takes its tensors from the pool; `bytes` are read and
  /// written; `changed` names tensors that a run in place changes too much for the next.
  template <class Make, class Changed>
  void measure(const std::string& name, const std::string& shape, double bytes, const Make& make,
               const Changed& changed);
  template <class Make>
  void measure(const std::string& name, const std::string& shape, double bytes, const Make& make) {
    measure(name, shape, bytes, make, [](const auto&) { return Views{}; });
  }
  /// Median over groups of the microseconds of one of `runs` submissions.
  double median_us(std::size_t runs, const std::function<void()>& prepare,
                   const std::function<void(std::size_t)>& submit);
  void report(const std::string& name, const std::string& shape, double bytes, double us);

  void measure_copy();
  void measure_embedding(const Model& m);
  void measure_norm(const Model& m);
  void measure_rope(const Model& m);
  void measure_swiglu(const Model& m);
  void measure_residual_add(const Model& m);
  void measure_cross_entropy(const std::string& name, std::int64_t tokens, std::int64_t vocabulary);
  void measure_flat(const Model& m);
  void measure_adamw(const Model& m, DType grad);

  [[nodiscard]] TensorView bf16(const Shape& shape) { return pool_.tensor(DType::kBF16, shape); }
  [[nodiscard]] TensorView f32(const Shape& shape) { return pool_.tensor(DType::kF32, shape); }
  [[nodiscard]] Stream& compute() { return backend_.device->stream(Lane::kCompute); }

  Backend& backend_;
  bench::Times& times_;
  Options options_;
  bench::DevicePool pool_;
  Arena hold_arena_;
  std::byte* hold_;
  double copy_tb_per_s_ = 0;
  nlohmann::json results_ = nlohmann::json::array();
};

std::string text(const char* format, auto... values) {
  char buffer[80];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

long long number(std::int64_t x) { return x; }
double count(std::int64_t x) { return static_cast<double>(x); }

double KernelBench::median_us(std::size_t runs, const std::function<void()>& prepare,
                              const std::function<void(std::size_t)>& submit) {
  const auto mark = [&] {
    times_.resume();
    compute().submit({.name = "mark"}, [] {});
    times_.pause();
  };
  std::vector<double> us;
  for (int group = 0; group < kWarmUpGroups + kGroups; ++group) {
    prepare();
    times_.start();
    times_.pause();
    compute().copy(hold_ + kHoldBytes, hold_, kHoldBytes, {});
    mark();
    for (std::size_t i = 0; i < runs; ++i) submit(i);
    mark();
    backend_.device->synchronize();
    const double elapsed = times_.spans().at(1).begin_us - times_.spans().at(0).end_us;
    if (group >= kWarmUpGroups) us.push_back(elapsed / count(static_cast<std::int64_t>(runs)));
  }
  return bench::median(std::move(us));
}

template <class Make, class Changed>
void KernelBench::measure(const std::string& name, const std::string& shape, double bytes,
                          const Make& make, const Changed& changed) {
  if ((name + " " + shape).find(options_.only) == std::string::npos) return;
  pool_.reset();
  std::vector<decltype(make())> sets{make()};
  const std::size_t set_bytes = pool_.used();
  while (pool_.used() < kColdBytes) sets.push_back(make());
  const std::size_t runs =
      (std::max(sets.size(), kRunsPerGroup) + sets.size() - 1) / sets.size() * sets.size();
  const auto prepare = [&] {
    for (const auto& set : sets) {
      for (const TensorView& view : changed(set)) pool_.refresh(view);
    }
  };
  const double us = median_us(
      changed(sets[0]).empty() ? runs : sets.size(), prepare,
      [&](std::size_t i) { backend_.kernels->run(compute(), sets[i % sets.size()], {}); });
  if (static_cast<double>(set_bytes) < bytes / 4) throw std::logic_error(name + ": wrong bytes");
  report(name, shape, bytes, us);
}

void KernelBench::report(const std::string& name, const std::string& shape, double bytes,
                         double us) {
  const double tb_per_s = bytes / us * 1e-6;
  std::printf("%-30s %-26s %8.1f %9.1f %7.2f", name.c_str(), shape.c_str(), bytes * 0x1p-20, us,
              tb_per_s);
  nlohmann::json result = {
      {"operator", name}, {"shape", shape}, {"bytes", bytes}, {"us", us}, {"tb_per_s", tb_per_s}};
  if (copy_tb_per_s_ > 0) {
    std::printf(" %6.0f %%", 100 * tb_per_s / copy_tb_per_s_);
    result["of_copy"] = tb_per_s / copy_tb_per_s_;
  }
  std::printf("\n");
  std::fflush(stdout);
  results_.push_back(result);
}

/// What the other figures are compared with: one copy of 256 MiB, two places in turn.
void KernelBench::measure_copy() {
  constexpr std::size_t kBytes = kHoldBytes / 2;
  const double us = median_us(
      kRunsPerGroup, [] {},
      [&](std::size_t i) {
        std::byte* from = hold_ + i % 2 * kBytes;
        compute().copy(from + kHoldBytes, from, kBytes, {});
      });
  const double bytes = 2 * static_cast<double>(kBytes);
  report("copy", "256 MiB", bytes, us);
  copy_tb_per_s_ = bytes / us * 1e-6;
}

/// Token ids as text has them: the share of the r-th most frequent falls as 1/r.
std::vector<std::int32_t> zipf_ids(const Model& m) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(m.tokens));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const double rank = std::pow(count(m.vocabulary), random_uniform(3, 3, i));  // in [1, V)
    ids[i] = static_cast<std::int32_t>(rank - 1);
  }
  return ids;
}

void KernelBench::measure_embedding(const Model& m) {
  const std::vector<std::int32_t> ids = zipf_ids(m);
  std::vector<std::int32_t> order(ids.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return ids[static_cast<std::size_t>(a)] < ids[static_cast<std::size_t>(b)];
  });
  const auto distinct =
      static_cast<double>(std::unordered_set<std::int32_t>(ids.begin(), ids.end()).size());
  const std::string shape = text("%s [%lld, %lld]", m.name, number(m.tokens), number(m.hidden));
  const double row = count(m.hidden);
  const double n = count(m.tokens);
  measure("embedding_forward", shape, (distinct + n) * row * kBf16 + 4 * n, [&] {
    return EmbeddingForward{.ids = pool_.upload(ids, DType::kI32),
                            .table = bf16({m.vocabulary, m.hidden}),
                            .y = bf16({m.tokens, m.hidden})};
  });
  measure("embedding_backward", shape, n * row * kBf16 + 2 * distinct * row * kF32 + 8 * n, [&] {
    return EmbeddingBackward{.ids = pool_.upload(ids, DType::kI32),
                             .order = pool_.upload(order, DType::kI32),
                             .dy = bf16({m.tokens, m.hidden}),
                             .d_table = f32({m.vocabulary, m.hidden})};
  });
}

void KernelBench::measure_norm(const Model& m) {
  const Shape rows{m.tokens, m.hidden};
  const std::string shape = text("%s [%lld, %lld]", m.name, number(m.tokens), number(m.hidden));
  const double matrix = count(rows.elements()) * kBf16;
  const double vector = count(m.tokens) * kF32;
  measure("rmsnorm_forward", shape, 2 * matrix + vector, [&] {
    return RmsNormForward{.x = bf16(rows),
                          .residual = {},
                          .weight = bf16({m.hidden}),
                          .sum = {},
                          .y = bf16(rows),
                          .rstd = f32({m.tokens})};
  });
  measure("rmsnorm_forward residual", shape, 4 * matrix + vector, [&] {
    const TensorView residual = bf16(rows);
    return RmsNormForward{.x = bf16(rows),
                          .residual = residual,
                          .weight = bf16({m.hidden}),
                          .sum = residual,
                          .y = bf16(rows),
                          .rstd = f32({m.tokens})};
  });
  const auto backward = [&](bool residual) {
    const TensorView dy = bf16(rows);
    return RmsNormBackward{.dy = dy,
                           .x = bf16(rows),
                           .weight = bf16({m.hidden}),
                           .rstd = f32({m.tokens}),
                           .d_residual = residual ? bf16(rows) : TensorView{},
                           .dx = dy,
                           .d_weight = f32({m.hidden}),
                           .workspace = f32({RmsNormBackward::kWorkspaceRows, m.hidden})};
  };
  const auto changed = [](const RmsNormBackward& op) { return Views{op.dx}; };
  measure("rmsnorm_backward", shape, 3 * matrix + vector, [&] { return backward(false); }, changed);
  measure(
      "rmsnorm_backward residual", shape, 4 * matrix + vector, [&] { return backward(true); },
      changed);
}

/// q and k within packed rows of q, k and v.
void KernelBench::measure_rope(const Model& m) {
  const std::int64_t width = m.hidden + 2 * m.kv();
  const std::int64_t turned = m.hidden + m.kv();
  std::vector<std::int32_t> positions(static_cast<std::size_t>(m.tokens));
  for (std::size_t i = 0; i < positions.size(); ++i) {
    positions[i] = static_cast<std::int32_t>(i % kSequence);
  }
  // Any rotation by the same angle takes as long.
  const std::vector<float> cos(kSequence * Model::kHeadDim / 2, 0.8f);
  const std::vector<float> sin(kSequence * Model::kHeadDim / 2, 0.6f);
  const auto table = [&](const std::vector<float>& values) {
    TensorView view = pool_.upload(values, DType::kF32);
    view.shape = {kSequence, Model::kHeadDim / 2};
    view.row_stride = Model::kHeadDim / 2;
    return view;
  };
  for (const RopeDirection direction : {RopeDirection::kForward, RopeDirection::kBackward}) {
    const bool forward = direction == RopeDirection::kForward;
    measure(
        forward ? "rope forward" : "rope backward",
        text("%s [%lld, %lld] of %lld", m.name, number(m.tokens), number(turned), number(width)),
        2 * count(m.tokens * turned) * kBf16, [&] {
          const TensorView qkv = bf16({m.tokens, width});
          return Rope{
              .x = {qkv.data, qkv.dtype, {m.tokens, m.heads + m.kv_heads, Model::kHeadDim}, width},
              .positions = pool_.upload(positions, DType::kI32),
              .cos = table(cos),
              .sin = table(sin),
              .direction = direction};
        });
  }
}

void KernelBench::measure_swiglu(const Model& m) {
  const std::string shape = text("%s [%lld, %lld]", m.name, number(m.tokens), number(m.ffn));
  const double matrix = count(m.tokens * m.ffn) * kBf16;
  measure("swiglu_forward", shape, 3 * matrix, [&] {
    return SwigluForward{.gate_up = bf16({m.tokens, 2 * m.ffn}), .y = bf16({m.tokens, m.ffn})};
  });
  measure(
      "swiglu_backward", shape, 6 * matrix,
      [&] {
        const TensorView gate_up = bf16({m.tokens, 2 * m.ffn});
        const TensorView y = bf16({m.tokens, m.ffn});
        return SwigluBackward{.d_y = y, .gate_up = gate_up, .d_gate_up = gate_up, .y = y};
      },
      [](const SwigluBackward& op) { return Views{op.d_gate_up, op.y}; });
}

void KernelBench::measure_residual_add(const Model& m) {
  const Shape rows{m.tokens, m.hidden};
  measure("residual_add", text("%s [%lld, %lld]", m.name, number(m.tokens), number(m.hidden)),
          3 * count(rows.elements()) * kBf16,
          [&] { return ResidualAdd{.a = bf16(rows), .b = bf16(rows), .y = bf16(rows)}; });
}

void KernelBench::measure_cross_entropy(const std::string& name, std::int64_t tokens,
                                        std::int64_t vocabulary) {
  std::vector<std::int32_t> targets(static_cast<std::size_t>(tokens));
  for (std::size_t i = 0; i < targets.size(); ++i) {
    targets[i] = static_cast<std::int32_t>(mix64(i) % static_cast<std::uint64_t>(vocabulary));
  }
  const std::string shape =
      text("%s [%lld, %lld]", name.c_str(), number(tokens), number(vocabulary));
  const double matrix = count(tokens * vocabulary) * kBf16;
  const auto make = [&](bool backward) {
    const TensorView logits = bf16({tokens, vocabulary});
    return CrossEntropy{.logits = logits,
                        .targets = pool_.upload(targets, DType::kI32),
                        .grad_scale = backward ? f32({1}) : TensorView{},
                        .loss = f32({tokens}),
                        .lse = f32({tokens}),
                        .d_logits = backward ? logits : TensorView{}};
  };
  measure("cross_entropy loss only", shape, matrix, [&] { return make(false); });
  measure(
      "cross_entropy", shape, 2 * matrix, [&] { return make(true); },
      [](const CrossEntropy& op) { return Views{op.d_logits}; });
}

/// All parameters of a layer in one run, as gradients are summed, rounded and measured.
void KernelBench::measure_flat(const Model& m) {
  const std::int64_t n = m.layer_parameters();
  const std::string shape = text("%s layer [%lld]", m.name, number(n));
  const double elements = count(n);
  measure("cast f32 to bf16", shape, elements * (kF32 + kBf16),
          [&] { return Cast{.x = f32({n}), .y = bf16({n})}; });
  measure("fill f32", shape, elements * kF32, [&] { return Fill{.x = f32({n}), .value = 1}; });
  measure("accumulate f32", shape, elements * 3 * kF32,
          [&] { return Accumulate{.x = f32({n}), .sum = f32({n})}; });
  const std::int64_t blocks = (n + SquaredNorm::kBlock - 1) / SquaredNorm::kBlock;
  measure("squared_norm f32", shape, elements * kF32, [&] {
    return SquaredNorm{.x = f32({n}), .partial = pool_.tensor(DType::kF64, {blocks})};
  });
  measure("squared_norm bf16", shape, elements * kBf16, [&] {
    return SquaredNorm{.x = bf16({n}), .partial = pool_.tensor(DType::kF64, {blocks})};
  });
  for (const DType to : {DType::kBF16, DType::kF32}) {
    measure("cast_squared_norm f32 to " + std::string(name_of(to)), shape,
            elements * (kF32 + static_cast<double>(size_of(to))), [&] {
              return CastSquaredNorm{.x = f32({n}),
                                     .y = pool_.tensor(to, {n}),
                                     .partial = pool_.tensor(DType::kF64, {blocks})};
            });
  }
  measure_adamw(m, DType::kF32);
  measure_adamw(m, DType::kBF16);
}

void KernelBench::measure_adamw(const Model& m, DType grad) {
  const std::int64_t n = m.layer_parameters();
  const double grad_bytes = static_cast<double>(size_of(grad));
  measure("adamw " + std::string(name_of(grad)) + " gradient",
          text("%s layer [%lld]", m.name, number(n)), count(n) * (24 + grad_bytes), [&] {
            AdamW op;
            op.weight = bf16({n});
            op.low = pool_.tensor(DType::kI16, {n});
            op.m = f32({n});
            op.v = f32({n});
            op.grad = pool_.tensor(grad, {n});
            const AdamWScalars scalars{.lr = 1e-4, .correction1 = 0.5, .correction2 = 0.5};
            const auto* bytes = reinterpret_cast<const std::uint8_t*>(&scalars);
            op.scalars = static_cast<const AdamWScalars*>(
                pool_.upload(std::vector<std::uint8_t>(bytes, bytes + sizeof scalars), DType::kU8)
                    .data);
            op.nonfinite = pool_.upload(std::vector<std::int32_t>{0}, DType::kI32);
            // A random v would be negative half of the time.
            backend_.kernels->run(compute(), Fill{.x = op.v, .value = 1}, {});
            return op;
          });
}

void KernelBench::run() {
  std::printf("%s; medians of %d groups of runs, device memory cold\n",
              backend_.device->info().name.c_str(), kGroups);
  std::printf("%-30s %-26s %8s %9s %7s %8s\n", "operator", "shape", "MiB", "us", "TB/s", "of copy");
  measure_copy();
  for (const Model& m : kModels) {
    measure_embedding(m);
    measure_norm(m);
    measure_rope(m);
    measure_swiglu(m);
    measure_residual_add(m);
    measure_flat(m);
  }
  measure_cross_entropy("7B", 8192, 32000);
  measure_cross_entropy("8B", 8192, 128256);
  measure_cross_entropy("largest", 4096, 262144);
  if (options_.json.empty()) return;
  std::ofstream file(options_.json);
  file << nlohmann::json{{"device", backend_.device->info().name}, {"results", results_}}.dump(2)
       << '\n';
  file.close();
  if (!file) throw std::runtime_error("cannot write " + options_.json);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view key(argv[i]);
    if (i + 1 == argc || (key != "--only" && key != "--json")) {
      throw std::runtime_error("usage: kernel_bench [--only TEXT] [--json FILE]");
    }
    (key == "--only" ? options.only : options.json) = argv[i + 1];
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    bench::Times times;
    Backend backend = make_backend(BackendKind::kCuda, {.device = {.trace = &times}, .threads = 1});
    KernelBench(backend, times, options).run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernel_bench: %s\n", error.what());
    return 1;
  }
}
