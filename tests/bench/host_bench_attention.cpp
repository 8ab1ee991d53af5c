// Measures how fast the host attends to keys and values of single queries, as generation has it do
// where keys and values live on the host, in bf16 and in int8, against a plain read of the same
// bytes by the same threads; alone, and while the link copies in. Layers follow each other as in a
// sweep, more of them than caches hold. The plain read sums four runs of memory side by side, which
// is the fastest of the ways to read that were tried.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/host_bench.h"
#include "bench/host_runs.h"
#include "bench/link_traffic.h"
#include "bench/times.h"
#include "strata/model/kv_views.h"
#include "strata/store/kv_store.h"

namespace strata::bench {
namespace {

constexpr int kRuns = 16;
constexpr int kChunksPerRun = 40;
constexpr std::size_t kLeastBytes = std::size_t{2} << 30;  ///< of all layers

struct Case {
  std::int64_t sequences, keys, heads, kv_heads, head_dim;
  KvDType kept = KvDType::kAuto;
  [[nodiscard]] std::string text() const {
    return std::to_string(sequences) + " x " + std::to_string(keys) + " keys, " +
           std::to_string(heads) + "/" + std::to_string(kv_heads) + " heads" +
           (kept == KvDType::kInt8 ? ", int8" : "");
  }
  [[nodiscard]] KvShape shape() const {
    return {.rows = sequences * keys,
            .heads = kv_heads,
            .head_size = head_dim,
            .dtype = DType::kBF16,
            .kept = kept};
  }
};

constexpr Case kCases[] = {{32, 640, 40, 40, 128},
                           {32, 640, 40, 40, 128, KvDType::kInt8},
                           {32, 640, 56, 56, 128},
                           {64, 1024, 64, 8, 128},
                           {64, 1024, 64, 8, 128, KvDType::kInt8},
                           {64, 640, 40, 8, 128},
                           {64, 640, 40, 8, 128, KvDType::kInt8},
                           {1, 32768, 32, 32, 128},
                           {1, 32768, 32, 32, 128, KvDType::kInt8}};

/// The keys and values of one layer, as the key-value store keeps them, and a query of each
/// sequence.
struct Layer {
  Layer(Backend& backend, const Case& c) : arena(*backend.device, Space::kPinned, bytes(c), "kv") {
    const KvShape shape = c.shape();
    const auto row_bytes = static_cast<std::int64_t>(shape.row_bytes());
    kv = arena.allocate_tensor("kv", DType::kU8, {shape.rows, row_bytes});
    kept = views(shape);
    tokens = {.q = arena.allocate_tensor("q", DType::kBF16, {c.sequences, c.heads, c.head_dim}),
              .segments = arena.allocate_tensor("segments", DType::kI32, {c.sequences, 5}),
              .pairs = shape.rows,
              .scale = 1 / std::sqrt(static_cast<double>(c.head_dim)),
              .o = arena.allocate_tensor("o", DType::kBF16, {c.sequences, c.heads, c.head_dim}),
              .lse = arena.allocate_tensor("lse", DType::kF32, {c.heads, c.sequences})};
    auto* entry = static_cast<std::int32_t*>(const_cast<void*>(tokens.segments.data));
    for (std::int64_t s = 0; s < c.sequences; ++s, entry += 5) {
      const std::int64_t row[] = {s, s * c.keys, 1, c.keys, c.keys - 1};
      std::ranges::transform(row, entry,
                             [](std::int64_t v) { return static_cast<std::int32_t>(v); });
    }
    // Any bits will do that are finite numbers in both dtypes: 0x3c3c is 0.01 or two levels of 60.
    std::memset(kv.data, 0x3c, kv.bytes().bytes);
    std::memset(const_cast<void*>(tokens.q.data), 0x3c, tokens.q.bytes().bytes);
  }
  [[nodiscard]] static std::size_t bytes(const Case& c) {
    return c.shape().layer_bytes(0) +
           static_cast<std::size_t>(c.sequences * c.heads * (4 * c.head_dim + 4)) + kMiB;
  }
  [[nodiscard]] KvViews views(const KvShape& shape) const {
    const bool int8 = shape.kept == KvDType::kInt8;
    const DType dtype = int8 ? DType::kI8 : shape.dtype;
    const std::int64_t width = shape.heads * shape.head_size;
    const auto at = [&](std::int64_t element, DType of, const Shape& rows) {
      auto* data =
          static_cast<std::byte*>(kv.data) + element * static_cast<std::int64_t>(size_of(dtype));
      return TensorView(data, of, rows, static_cast<std::int64_t>(shape.row_bytes() / size_of(of)));
    };
    const Shape heads{shape.rows, shape.heads, shape.head_size};
    KvViews all{.k = at(0, dtype, heads), .v = at(width, dtype, heads)};
    if (!int8) return all;
    all.k_scale = at(2 * width, DType::kF32, {shape.rows, shape.heads});
    all.v_scale = at(2 * width + 4 * shape.heads, DType::kF32, {shape.rows, shape.heads});
    return all;
  }

  Arena arena;
  TensorView kv;
  KvViews kept;
  SingleTokens tokens;
};

std::uint64_t sum(const TensorView& view, std::int64_t begin, std::int64_t end) {
  const auto* words = static_cast<const std::uint64_t*>(view.data) + begin;
  const std::int64_t quarter = (end - begin) / 4;
  std::uint64_t sums[4] = {};
  for (std::int64_t i = 0; i < quarter; ++i) {
    for (int k = 0; k < 4; ++k) sums[k] += words[k * quarter + i];
  }
  for (std::int64_t i = 4 * quarter; i < end - begin; ++i) sums[0] += words[i];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

void read_all(ThreadPool& pool, const TensorView& view, std::vector<std::uint64_t>& sums) {
  constexpr std::int64_t kGrain = 16384;
  const auto words = static_cast<std::int64_t>(view.bytes().bytes / sizeof(std::uint64_t));
  sums.assign(static_cast<std::size_t>(words / kGrain + 1), 0);
  pool.parallel_for(words, kGrain, [&](std::int64_t begin, std::int64_t end) {
    sums[static_cast<std::size_t>(begin / kGrain)] += sum(view, begin, end);
  });
}

class AttentionBench {
 public:
  AttentionBench(Backend& backend, LaneTimes& times, nlohmann::json& results)
      : backend_(backend), times_(times), results_(results) {}

  /// `busy` submits other work that lasts longer than a run; returns false if there is none.
  template <class Busy>
  void measure(const std::string& where, const Busy& busy) {
    for (const Case& c : kCases) {
      std::deque<Layer> layers;
      while (layers.size() * Layer::bytes(c) < kLeastBytes) layers.emplace_back(backend_, c);
      std::vector<std::uint64_t> sums;
      Stream& host = backend_.device->stream(Lane::kHost);
      const Rates read = rates(layers, busy, [&](const Layer& layer) {
        host.host_task("read", {}, {}, [&] { read_all(*backend_.pool, layer.kv, sums); });
      });
      const Rates attended = rates(layers, busy, [&](const Layer& layer) {
        attend_to_kv(backend_.host_kernels(), host, layer.kept, layer.tokens, {});
      });
      const std::string name = c.text() + ", " + where;
      std::printf("host attention, %-44s %7.1f GB/s, plain read %7.1f, share %.2f", name.c_str(),
                  attended.host, read.host, attended.host / read.host);
      if (read.link > 0) std::printf("; copies %.1f and %.1f", attended.link, read.link);
      std::printf("\n");
      std::fflush(stdout);
      results_.push_back({{"name", "host attention, " + name},
                          {"gb_per_s", attended.host},
                          {"plain_read_gb_per_s", read.host},
                          {"share", attended.host / read.host},
                          {"copies_gb_per_s", attended.link},
                          {"copies_beside_plain_read_gb_per_s", read.link}});
    }
  }

 private:
  /// GB/s, the median of runs: of the bytes of a layer, and of copies meanwhile.
  struct Rates {
    double host = 0;
    double link = 0;
  };
  /// Takes one layer after the other in turns.
  template <class Busy, class Run>
  Rates rates(const std::deque<Layer>& layers, const Busy& busy, const Run& run) {
    std::size_t next = 0;
    const HostRuns runs =
        time_host_runs(*backend_.device, times_, kRuns, {Lane::kWeightsIn}, "host attention", busy,
                       [&] { run(layers[next++ % layers.size()]); });
    const auto bytes = static_cast<double>(layers.front().kv.bytes().bytes);
    return {.host = bytes / median(runs.seconds) * 1e-9,
            .link = runs.busy ? LinkTraffic::gb_per_s(times_, Lane::kWeightsIn, runs.steady) : 0};
  }

  Backend& backend_;
  LaneTimes& times_;
  nlohmann::json& results_;
};

}  // namespace

void bench_host_attention(Backend& backend, LaneTimes& times, nlohmann::json& results) {
  AttentionBench bench(backend, times, results);
  bench.measure("alone", [] { return false; });
  if (backend.device->info().backend != "cuda") return;
  LinkTraffic link(*backend.device);
  bench.measure("under copies in", [&] {
    link.submit(kChunksPerRun, true, false);
    return true;
  });
}

}  // namespace strata::bench
