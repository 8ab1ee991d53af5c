// Takes the tokens of a sweep to the device and brings drawn ones back. What a sweep reads lies
// side by side in one buffer, and what it writes in another, so that each goes where it goes at
// once. What is read is brought by a kernel: a copy would wait in the device's one queue for the
// weights that are loaded ahead.

#include "strata/store/token_store.h"

#include <algorithm>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/convert.h"
#include "strata/device/device.h"

namespace strata {

namespace {

/// Returns how many tokens have rows in layers that keep a window.
std::int64_t window_tokens(const SweepShape& s) { return s.window_segments > 0 ? s.tokens : 0; }

/// The places of the parts of both buffers, in bytes.
struct TokenPlaces {
  std::size_t ids = 0, positions, rows, segments, window_rows, window_segments, after, targets,
              seen, sampling, inputs;
  std::size_t token = 0, logprob, lse, outputs;

  explicit TokenPlaces(const SweepShape& s) {
    const auto ints = [](std::int64_t count) { return static_cast<std::size_t>(count) * 4; };
    positions = ids + ints(s.tokens);
    rows = positions + ints(s.tokens);
    segments = rows + ints(s.tokens);
    window_rows = segments + ints(5 * s.segments);
    window_segments = window_rows + ints(window_tokens(s));
    after = window_segments + ints(5 * s.window_segments);
    targets = after + ints(s.sampled);
    seen = targets + ints(s.sampled);
    sampling = round_up(seen + ints(s.seen), alignof(SamplingRow));
    inputs = sampling + static_cast<std::size_t>(s.sampled) * sizeof(SamplingRow);
    static_assert(sizeof(SamplingRow) % sizeof(std::int32_t) == 0);
    const std::size_t logarithms = static_cast<std::size_t>(s.sampled) * size_of(s.accumulator);
    logprob = round_up(token + ints(s.sampled), 8);
    lse = round_up(logprob + logarithms, 8);
    outputs = lse + logarithms;
  }
};

template <class T>
std::span<T> tokens_at(std::byte* base, std::size_t begin, std::int64_t count) {
  return {reinterpret_cast<T*>(base + begin), static_cast<std::size_t>(count)};
}

}  // namespace

TokenStore::Memory::Memory(const SweepShape& shape, Allocator& memory)
    : inputs(memory, Space::kDevice, "sweep.tokens", 1, TokenPlaces(shape).inputs),
      outputs(memory, Space::kDevice, "sweep.drawn", 1, TokenPlaces(shape).outputs),
      host_inputs(memory.allocate(Space::kPinned, "sweep.tokens", TokenPlaces(shape).inputs)),
      host_outputs(memory.allocate(Space::kPinned, "sweep.drawn", TokenPlaces(shape).outputs)) {}

TokenStore::TokenStore(const SweepShape& shape, Kernels& kernels, Arenas& arenas)
    : shape_(shape), kernels_(kernels), device_(arenas.device()), memory_(shape, arenas) {}

SweepBuffers TokenStore::host() {
  device_.wait(uploaded_);
  device_.wait(read_);
  const TokenPlaces at(shape_);
  std::byte* base = memory_.host_inputs;
  device_.host_access("fill_sweep", [&] { return Accesses({}, {{base, at.inputs}}); },
                      {.phase = "sweep"});
  return {.ids = tokens_at<std::int32_t>(base, at.ids, shape_.tokens),
          .positions = tokens_at<std::int32_t>(base, at.positions, shape_.tokens),
          .rows = tokens_at<std::int32_t>(base, at.rows, shape_.tokens),
          .segments = tokens_at<std::int32_t>(base, at.segments, 5 * shape_.segments),
          .after = tokens_at<std::int32_t>(base, at.after, shape_.sampled),
          .targets = tokens_at<std::int32_t>(base, at.targets, shape_.sampled),
          .sampling = tokens_at<SamplingRow>(base, at.sampling, shape_.sampled),
          .seen = tokens_at<std::int32_t>(base, at.seen, shape_.seen),
          .window_rows = tokens_at<std::int32_t>(base, at.window_rows, window_tokens(shape_)),
          .window_segments =
              tokens_at<std::int32_t>(base, at.window_segments, 5 * shape_.window_segments)};
}

TokenLease TokenStore::upload(Stream& compute, const Tag& tag) {
  const TokenPlaces at(shape_);
  const Shape words{static_cast<std::int64_t>(at.inputs / sizeof(std::int32_t))};
  TokenLease lease;
  lease.inputs = memory_.inputs.fill(0, 0, compute);
  kernels_.run(compute,
               Cast{.x = ConstTensorView(memory_.host_inputs, DType::kI32, words),
                    .y = TensorView(lease.inputs.data(), DType::kI32, words)},
               tag);
  lease.inputs.filled();
  uploaded_ = compute.record();
  lease.outputs = memory_.outputs.fill(0, 0, compute);

  std::byte* const base = lease.inputs.data();
  std::byte* const out = lease.outputs.data();
  const auto ints_of = [](const std::byte* where, std::size_t begin, Shape shape) {
    return ConstTensorView(where + begin, DType::kI32, shape);
  };
  const auto ints = [&](std::size_t begin, Shape shape) { return ints_of(base, begin, shape); };
  const Shape drawn{shape_.sampled};
  lease.ids = ints(at.ids, {shape_.tokens});
  lease.positions = ints(at.positions, {shape_.tokens});
  const auto tables = [&](std::size_t rows, std::size_t segments, std::int64_t count) {
    const Shape all{count, 5};
    return KvTables{.rows = ints(rows, {shape_.tokens}),
                    .segments = ints(segments, all),
                    .host_rows = ints_of(memory_.host_inputs, rows, {shape_.tokens}),
                    .host_segments = ints_of(memory_.host_inputs, segments, all)};
  };
  lease.tables = tables(at.rows, at.segments, shape_.segments);
  if (shape_.window_segments > 0) {
    lease.window_tables = tables(at.window_rows, at.window_segments, shape_.window_segments);
  }
  lease.targets = ints(at.targets, drawn);
  lease.sampled.after = ints(at.after, drawn);
  lease.sampled.rows =
      ConstTensorView(base + at.sampling, DType::kU8,
                      Shape{shape_.sampled, static_cast<std::int64_t>(sizeof(SamplingRow))});
  if (shape_.seen > 0) lease.sampled.seen = ints(at.seen, {shape_.seen});
  lease.sampled.token = TensorView(out + at.token, DType::kI32, drawn);
  lease.sampled.logprob = TensorView(out + at.logprob, shape_.accumulator, drawn);
  lease.lse = TensorView(out + at.lse, shape_.accumulator, drawn);
  return lease;
}

void TokenStore::deliver(TokenLease lease, const Tag& tag) {
  Stream& out = device_.stream(Lane::kOut);
  lease.outputs.filled();
  lease.outputs.use(out);
  out.copy(memory_.host_outputs, lease.outputs.data(), TokenPlaces(shape_).lse, tag);
  lease.outputs.end();
  delivered_ = out.record();
}

SweepResults TokenStore::results(std::int64_t count) {
  device_.wait(delivered_);
  device_.throw_if_failed();
  const TokenPlaces at(shape_);
  device_.host_access("read_sweep", [&] { return Accesses({{memory_.host_outputs, at.lse}}, {}); },
                      {.phase = "sweep"});
  return {.token = tokens_at<const std::int32_t>(memory_.host_outputs, at.token, count),
          .logprob = load_as_double(ConstTensorView(memory_.host_outputs + at.logprob,
                                                    shape_.accumulator, Shape{count}))};
}

}  // namespace strata
