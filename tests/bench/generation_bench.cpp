// Measures what generation of single tokens spends its time in, in TB/s of the weights or of the
// keys and values that are read, and as a share of what a plain read of as many bytes reaches in
// the same run.
//   generation_bench [--only TEXT] [--json FILE]     (TEXT: part of an operator's name or a shape)
// Operators follow each other as in a sweep, so they may begin while the one before ends.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "bench/llama_shapes.h"
#include "bench/operator_timer.h"
#include "bench/plain_read.h"
#include "bench/program.h"
#include "bench/times.h"
#include "src/model/heads.h"
#include "strata/ops/backend.h"

namespace {

using namespace strata;
using namespace bench;

/// Has what follows compared with plain reads of as many bytes, of a power of two of them at most:
/// of a few, much of the time is a kernel's start and end.
void compare_with_reads(OperatorTimer& timer) {
  std::map<double, double> rates;  // by bytes, of the fastest way
  for (std::int64_t mib = 1; mib <= 2048; mib *= 2) {
    const double bytes = count(mib << 20);
    for (const int block : kReadBlockBytes) {
      timer.measure("plain_read",
                    text("%lld MiB, blocks of %lld KiB", number(mib), number(block >> 10)), bytes,
                    [&] {
                      return [&timer, block, memory = timer.f32({mib << 18})] {
                        submit_read(timer.compute(), memory, block);
                      };
                    });
      rates[bytes] = std::max(rates[bytes], timer.last_tb_per_s());
    }
  }
  std::printf("from here on compared with the fastest plain read of as many bytes\n");
  timer.compare_with("plain_read", [rates](double bytes) {
    const auto above = rates.upper_bound(bytes);
    return (above == rates.begin() ? above : std::prev(above))->second;
  });
}

Int8Kv int8_cache(OperatorTimer& timer, const Model& m, std::int64_t rows) {
  const Shape kept{rows, m.kv_heads, Model::kHeadDim};
  return {.k = timer.pool().tensor(DType::kI8, kept),
          .v = timer.pool().tensor(DType::kI8, kept),
          .k_scale = timer.f32({rows, m.kv_heads}),
          .v_scale = timer.f32({rows, m.kv_heads})};
}

/// The table of segments, of five numbers each: of queries that see so many keys, side by side.
TensorView upload_segments(OperatorTimer& timer, std::int64_t queries, std::int64_t keys) {
  constexpr std::int64_t kEntries = 5;
  std::vector<std::int32_t> entries;
  for (std::int64_t q = 0; q < queries; ++q) {
    for (const std::int64_t entry : {q, q * keys, std::int64_t{1}, keys, keys - 1}) {
      entries.push_back(static_cast<std::int32_t>(entry));
    }
  }
  TensorView view = timer.pool().upload(entries, DType::kI32);
  view.shape = Shape{queries, kEntries};
  view.row_stride = kEntries;
  return view;
}

/// AttentionForward::parts of queries that see so many keys each.
TensorView scratch_of_parts(OperatorTimer& timer, const Model& m, std::int64_t queries,
                            std::int64_t keys) {
  const std::int64_t parts = (keys + AttentionForward::kPartKeys - 1) / AttentionForward::kPartKeys;
  return timer.f32({queries, parts, m.heads * (Model::kHeadDim + 2)});
}

constexpr double kAttentionScale = 0.0884;

/// What turns, appends and attends for new tokens, each of which sees `keys` keys, its own the
/// last. `all` [queries, (heads + 2 kv heads) * D] are their queries, keys and values, `o`
/// [queries, heads, D] is written.
FusedAttend fused_attend(OperatorTimer& timer, const Model& m, std::int64_t queries,
                         std::int64_t keys, const TensorView& all, const TensorView& o) {
  const std::int64_t d = Model::kHeadDim;
  const std::int64_t turned = m.heads + m.kv_heads;
  const auto heads = [&](std::int64_t first, std::int64_t count) {
    return heads_of(all, first * d, count, d);
  };
  const std::vector positions(static_cast<std::size_t>(queries),
                              static_cast<std::int32_t>(keys - 1));
  std::vector<std::int32_t> rows;
  for (std::int64_t q = 1; q <= queries; ++q) {
    rows.push_back(static_cast<std::int32_t>(q * keys - 1));
  }
  const Shape kept{queries * keys, m.kv_heads, d};
  return {.added = {.rope = {.x = heads(0, turned),
                             .positions = timer.pool().upload(positions, DType::kI32),
                             .cos = timer.f32({keys, d / 2}),
                             .sin = timer.f32({keys, d / 2})},
                    .append = {.k = heads(m.heads, m.kv_heads),
                               .v = heads(turned, m.kv_heads),
                               .rows = timer.pool().upload(rows, DType::kI32),
                               .cache_k = timer.bf16(kept),
                               .cache_v = timer.bf16(kept)}},
          .segments = upload_segments(timer, queries, keys),
          .o = o,
          .lse = timer.f32({m.heads, queries}),
          .parts = scratch_of_parts(timer, m, queries, keys),
          .scale = kAttentionScale};
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

/// What a layer does for one token that sees `keys` keys, its own among them.
struct TokenLayer {
  TokenLayer(OperatorTimer& timer, const Model& m, std::int64_t keys) {
    const std::int64_t d = Model::kHeadDim;
    const auto row = [&](std::int64_t width) { return timer.bf16({1, width}); };
    const TensorView x = row(m.hidden);
    const TensorView n = row(m.hidden);
    const TensorView mid = row(m.hidden);
    const TensorView act = row(m.ffn);
    const TensorView o = row(m.heads * d);
    const TensorView all = row((m.heads + 2 * m.kv_heads) * d);
    const RmsNormForward norm{.x = x,
                              .residual = {},
                              .weight = timer.bf16({m.hidden}),
                              .sum = {},
                              .y = n,
                              .rstd = timer.f32({1})};
    const auto product = [&](const TensorView& from, const TensorView& to) {
      return Matmul{.a = from,
                    .b = timer.bf16({to.shape[1], from.shape[1]}),
                    .out = to,
                    .batch_invariant = true};
    };
    qkv = {.norm = norm, .product = product(n, all)};
    out = {.product = product(o, n)};
    const TensorView normed = row(m.hidden);
    const TensorView both = row(2 * m.ffn);
    gate_up = {.norm = {.x = x,
                        .residual = n,
                        .weight = norm.weight,
                        .sum = mid,
                        .y = normed,
                        .rstd = norm.rstd},
               .product = product(normed, both),
               .gate = {.gate_up = both, .y = act}};
    down = {.product = product(act, x), .residual = {.a = mid, .b = x, .y = x}};
    attend = fused_attend(timer, m, 1, keys, all, heads_of(o, 0, m.heads, d));
  }

  FusedLinear qkv, out, gate_up, down;
  FusedAttend attend;
};

/// A layer of one token, its products alone and its attention alone, as they follow each other.
void measure_token_layer(OperatorTimer& timer, const Model& m, std::int64_t keys) {
  const auto measure = [&](const char* name, bool products, bool attention) {
    const double bytes = (products ? kBf16 * count(m.layer_parameters()) : 0) +
                         (attention ? 2 * kBf16 * count(keys * m.kv()) : 0);
    timer.measure(name, text("%s %lld keys", m.name, number(keys)), bytes, [&] {
      return [&timer, layer = TokenLayer(timer, m, keys), products, attention] {
        Kernels& kernels = *timer.backend().kernels;
        Stream& lane = timer.compute();
        if (products) kernels.run(lane, layer.qkv, {});
        if (attention) kernels.run(lane, layer.attend, {});
        if (!products) return;
        kernels.run(lane, layer.out, {});
        kernels.run(lane, layer.gate_up, {});
        kernels.run(lane, layer.down, {});
      };
    });
  };
  measure("layer of one token", true, true);
  measure("its products", true, false);
  measure("its attention", false, true);
}

/// Attention of `queries` single tokens that see `keys` keys each, kept in bf16 and in int8.
void measure_attention(OperatorTimer& timer, const Model& m, std::int64_t queries,
                       std::int64_t keys) {
  const std::int64_t rows = queries * keys;
  const auto table = [&] { return upload_segments(timer, queries, keys); };
  const auto scratch = [&] { return scratch_of_parts(timer, m, queries, keys); };
  const Shape of_queries{queries, m.heads, Model::kHeadDim};
  const Shape kept{rows, m.kv_heads, Model::kHeadDim};
  const double elements = 2 * count(kept.elements());
  const std::string shape = text("%lld x %lld keys, %lld/%lld", number(queries), number(keys),
                                 number(m.heads), number(m.kv_heads));
  timer.measure("attention of single tokens", shape, elements * kBf16, [&] {
    return AttentionForward{.q = timer.bf16(of_queries),
                            .k = timer.bf16(kept),
                            .v = timer.bf16(kept),
                            .segments = {.table = table(), .pairs = rows},
                            .o = timer.bf16(of_queries),
                            .lse = timer.f32({m.heads, queries}),
                            .parts = scratch(),
                            .scale = kAttentionScale};
  });
  timer.measure("fused_attend", shape, elements * kBf16, [&] {
    const std::int64_t width = (m.heads + 2 * m.kv_heads) * Model::kHeadDim;
    return fused_attend(timer, m, queries, keys, timer.bf16({queries, width}),
                        timer.bf16(of_queries));
  });
  timer.measure("attend_int8_kv", shape, elements * (1 + kF32 / Model::kHeadDim), [&] {
    return AttendInt8Kv{.q = timer.bf16(of_queries),
                        .cache = int8_cache(timer, m, rows),
                        .segments = table(),
                        .o = timer.bf16(of_queries),
                        .parts = scratch(),
                        .scale = kAttentionScale,
                        .pairs = rows};
  });
}

/// What a token of each of 64 sequences of 1,024 adds to int8 keys and values.
void measure_append(OperatorTimer& timer, const Model& m) {
  constexpr std::int64_t kSequences = 64;
  constexpr std::int64_t kKeys = 1024;
  std::vector<std::int32_t> places;
  for (std::int64_t n = 0; n < kSequences; ++n) {
    places.push_back(static_cast<std::int32_t>(n * kKeys));
  }
  const Shape added{kSequences, m.kv_heads, Model::kHeadDim};
  timer.measure("append_int8_kv",
                text("%s %lld x %lld", m.name, number(kSequences), number(m.kv_heads)),
                2 * count(added.elements()) * (kBf16 + 1), [&] {
                  return AppendInt8Kv{.k = timer.bf16(added),
                                      .v = timer.bf16(added),
                                      .rows = timer.pool().upload(places, DType::kI32),
                                      .cache = int8_cache(timer, m, kSequences * kKeys)};
                });
}

void run(const bench::Options& options) {
  bench::Times times;
  Backend backend = make_backend(BackendKind::kCuda, {.device = {.trace = &times}, .threads = 1});
  std::printf("%s; medians of %d groups of runs, device memory cold\n",
              backend.device->info().name.c_str(), OperatorTimer::kGroups);
  OperatorTimer timer(backend, times, "");
  compare_with_reads(timer);
  timer.measure_only(options.only);
  const auto models = std::span(kModels).subspan(1);  // from the 7B on
  for (const Model& m : models) measure_layers(timer, m);
  for (const Model& m : {models[0], models[1], models[3]}) {
    for (const std::int64_t keys : {256, 384}) measure_token_layer(timer, m, keys);
  }
  measure_attention(timer, models[0], 192, 576);
  // At least 64 MiB of keys and values.
  for (const Model& m : {models[0], models[1], models[3]}) {
    for (const std::int64_t keys : {512, 2048, 8192, 32768, 131072}) {
      const std::int64_t bytes_of_keys = 4 * m.kv() * keys;
      const std::int64_t least = std::int64_t{64} << 20;
      measure_attention(
          timer, m, std::max<std::int64_t>(1, (least + bytes_of_keys - 1) / bytes_of_keys), keys);
    }
    measure_append(timer, m);
  }
  bench::write_json(options.json, timer.results());
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program("generation_bench",
                            [&] { run(bench::parse_options("generation_bench", argc, argv)); });
}
