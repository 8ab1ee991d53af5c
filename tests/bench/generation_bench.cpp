// Measures what generation of single tokens spends its time in, in TB/s of the weights or of the
// keys and values that are read, and as a share of a plain read of device memory in the same run.
//   generation_bench [--only TEXT] [--json FILE]     (TEXT: part of an operator's name or a shape)
// The plain read is squared_norm, which reads everything and writes next to nothing. Operators
// follow each other as in a sweep, so they may begin while the one before ends.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/operator_timer.h"
#include "bench/program.h"
#include "bench/times.h"
#include "strata/ops/backend.h"

namespace {

using namespace strata;
using bench::OperatorTimer;

constexpr double kBf16 = 2;

struct Model {
  const char* name;
  std::int64_t hidden, ffn, heads, kv_heads, vocabulary;
  static constexpr std::int64_t kHeadDim = 128;
};

constexpr Model kModels[] = {{"7B", 4096, 11008, 32, 32, 32000},
                             {"8B", 4096, 14336, 32, 8, 128256},
                             {"13B", 5120, 13824, 40, 40, 32000},
                             {"70B", 8192, 28672, 64, 8, 32000}};

std::string text(const char* format, auto... values) {
  char buffer[80];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

long long number(std::int64_t x) { return x; }
double count(std::int64_t x) { return static_cast<double>(x); }

void measure_plain_read(OperatorTimer& timer) {
  constexpr std::int64_t kElements = std::int64_t{1} << 26;
  timer.measure("plain read", "256 MiB", 4 * count(kElements), [&] {
    return SquaredNorm{
        .x = timer.f32({kElements}),
        .partial = timer.pool().tensor(DType::kF64, {SquaredNorm::partials(kElements)})};
  });
  timer.compare_with_last();
}

/// What a linear layer of a single stream has around its product.
struct Layer {
  const char* name;
  std::int64_t in, out;
  bool norm, gate, residual;
};

void measure_layer(OperatorTimer& timer, const Model& m, const Layer& layer) {
  const std::string shape =
      text("%s %s [%lld, %lld]", m.name, layer.name, number(layer.out), number(layer.in));
  timer.measure("fused_linear", shape, kBf16 * count(layer.in) * count(layer.out), [&] {
    FusedLinear op;
    op.product = {.a = timer.bf16({1, layer.in}),
                  .b = timer.bf16({layer.out, layer.in}),
                  .out = timer.bf16({1, layer.out}),
                  .batch_invariant = true};
    if (layer.norm) {
      const TensorView y = timer.bf16({1, layer.in});
      op.norm = {.x = op.product.a,
                 .residual = {},
                 .weight = timer.bf16({layer.in}),
                 .sum = {},
                 .y = y,
                 .rstd = timer.f32({1})};
      op.product.a = y;
    }
    if (layer.gate) op.gate = {.gate_up = op.product.out, .y = timer.bf16({1, layer.out / 2})};
    if (layer.residual) {
      op.residual = {.a = timer.bf16({1, layer.out}), .b = op.product.out, .y = op.product.out};
    }
    return op;
  });
}

void measure_layers(OperatorTimer& timer, const Model& m) {
  const std::int64_t qkv = (m.heads + 2 * m.kv_heads) * Model::kHeadDim;
  const std::int64_t width = m.heads * Model::kHeadDim;
  for (const Layer& layer : {Layer{"qkv", m.hidden, qkv, true, false, false},
                             Layer{"out", width, m.hidden, false, false, false},
                             Layer{"gate_up", m.hidden, 2 * m.ffn, true, true, false},
                             Layer{"down", m.ffn, m.hidden, false, false, true},
                             Layer{"head", m.hidden, m.vocabulary, true, false, false}}) {
    measure_layer(timer, m, layer);
  }
}

/// Attention of `queries` single tokens that see `keys` keys each.
void measure_attention(OperatorTimer& timer, const Model& m, std::int64_t queries,
                       std::int64_t keys) {
  const std::int64_t parts = (keys + AttentionForward::kPartKeys - 1) / AttentionForward::kPartKeys;
  std::vector<std::int32_t> table;
  for (std::int64_t q = 0; q < queries; ++q) {
    for (const std::int64_t entry : {q, q * keys, std::int64_t{1}, keys, keys - 1}) {
      table.push_back(static_cast<std::int32_t>(entry));
    }
  }
  const Shape of_queries{queries, m.heads, Model::kHeadDim};
  const Shape of_keys{queries * keys, m.kv_heads, Model::kHeadDim};
  const std::string shape = text("%lld x %lld keys, %lld/%lld", number(queries), number(keys),
                                 number(m.heads), number(m.kv_heads));
  timer.measure("attention of single tokens", shape, 2 * kBf16 * count(of_keys.elements()), [&] {
    TensorView segments = timer.pool().upload(table, DType::kI32);
    segments.shape = Shape{queries, 5};
    segments.row_stride = 5;
    return AttentionForward{.q = timer.bf16(of_queries),
                            .k = timer.bf16(of_keys),
                            .v = timer.bf16(of_keys),
                            .segments = {.table = segments, .pairs = queries * keys},
                            .o = timer.bf16(of_queries),
                            .lse = timer.f32({m.heads, queries}),
                            .parts = timer.f32({queries, parts, m.heads * (Model::kHeadDim + 2)}),
                            .scale = 0.0884};
  });
}

void run(const bench::Options& options) {
  bench::Times times;
  Backend backend = make_backend(BackendKind::kCuda, {.device = {.trace = &times}, .threads = 1});
  std::printf("%s; medians of %d groups of runs, device memory cold\n",
              backend.device->info().name.c_str(), OperatorTimer::kGroups);
  OperatorTimer timer(backend, times, "");
  measure_plain_read(timer);
  timer.measure_only(options.only);
  for (const Model& m : kModels) measure_layers(timer, m);
  // At least 64 MiB of keys and values.
  for (const Model& m : {kModels[0], kModels[1], kModels[3]}) {
    for (const std::int64_t keys : {512, 2048, 8192, 32768, 131072}) {
      const std::int64_t bytes_of_key = 4 * m.kv_heads * Model::kHeadDim;
      const std::int64_t least = std::int64_t{64} << 20;
      const std::int64_t queries =
          std::max<std::int64_t>(1, (least + keys * bytes_of_key - 1) / (keys * bytes_of_key));
      measure_attention(timer, m, queries, keys);
    }
  }
  measure_attention(timer, kModels[0], 1, 384);
  bench::write_json(options.json, timer.results());
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program("generation_bench",
                            [&] { run(bench::parse_options("generation_bench", argc, argv)); });
}
