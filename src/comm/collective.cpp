#include "comm/collective.h"

#include <algorithm>
#include <string>

#include "strata/base/error.h"

namespace strata {

namespace {

template <class T>
void sum_parts(std::span<const std::byte* const> parts, std::size_t count, std::byte* sum) {
  // Blocks that stay in the first-level cache while the parts are added one after the other.
  constexpr std::size_t kBlock = 1024;
  T block[kBlock];
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t size = std::min(kBlock, count - begin);
    const auto part = [&](std::size_t p) { return reinterpret_cast<const T*>(parts[p]) + begin; };
    std::copy_n(part(0), size, block);
    for (std::size_t p = 1; p < parts.size(); ++p) {
      const T* values = part(p);
      for (std::size_t i = 0; i < size; ++i) block[i] += values[i];
    }
    std::copy_n(block, size, reinterpret_cast<T*>(sum) + begin);
  }
}

}  // namespace

Shards shards_of(std::string_view collective, const TensorView& full, int ranks) {
  const bool absent = full.data == nullptr && full.elements() > 0;
  if (absent || !full.contiguous() || full.elements() % ranks != 0) {
    throw ShapeError(std::string(collective) + ": needs a contiguous buffer of " +
                     std::to_string(ranks) + " equal shards, not " + full.shape.to_string() +
                     (absent              ? ", absent"
                      : full.contiguous() ? ""
                                          : " with gaps between its rows"));
  }
  const auto elements = static_cast<std::size_t>(full.elements() / ranks);
  return {.data = static_cast<std::byte*>(full.data),
          .shard_bytes = elements * size_of(full.dtype),
          .ranks = ranks,
          .dtype = full.dtype};
}

Shards summable_shards_of(const TensorView& full, int ranks) {
  if (full.dtype != DType::kF32 && full.dtype != DType::kF64) {
    throw ShapeError(std::string(kReduceScatter) + ": sums f32 or f64, not " +
                     std::string(name_of(full.dtype)));
  }
  return shards_of(kReduceScatter, full, ranks);
}

void submit_all_gather(Stream& comm, const Shards& full, int rank, const Tag& tag,
                       FunctionRef<void()> enqueue) {
  comm.submit(
      {.name = kAllGather, .kind = SubmissionKind::kCollective, .tag = tag},
      [&] { return Footprint{.accesses = {{full.range(rank)}, {full.all()}}}; }, enqueue);
}

void submit_reduce_scatter(Stream& comm, const Shards& full, const Tag& tag,
                           FunctionRef<void()> enqueue) {
  comm.submit(
      {.name = kReduceScatter, .kind = SubmissionKind::kCollective, .tag = tag},
      [&] { return Footprint{.accesses = {{full.all()}, {full.all()}}}; }, enqueue);
}

void sum_in_rank_order(DType dtype, std::span<const std::byte* const> parts, std::size_t bytes,
                       std::byte* sum) {
  if (dtype == DType::kF64) {
    sum_parts<double>(parts, bytes / sizeof(double), sum);
  } else {
    sum_parts<float>(parts, bytes / sizeof(float), sum);
  }
}

}  // namespace strata
