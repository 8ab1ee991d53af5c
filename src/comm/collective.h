#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "strata/base/function_ref.h"
#include "strata/base/tensor.h"
#include "strata/device/stream.h"

// What the communicators have in common: the shape of the buffer that a data collective works on.
namespace strata {

/// A buffer of `ranks` equal shards, one behind the other.
struct Shards {
  std::byte* data = nullptr;
  std::size_t shard_bytes = 0;
  int ranks = 1;
  DType dtype = DType::kF32;

  [[nodiscard]] std::byte* at(int rank) const {
    return data + static_cast<std::size_t>(rank) * shard_bytes;
  }
  [[nodiscard]] ByteRange range(int rank) const { return {at(rank), shard_bytes}; }
  [[nodiscard]] ByteRange all() const {
    return {data, static_cast<std::size_t>(ranks) * shard_bytes};
  }
};

inline constexpr std::string_view kAllGather = "all_gather";
inline constexpr std::string_view kReduceScatter = "reduce_scatter";

/// The buffer as shards. Throws ShapeError if it is absent, has gaps between rows, or cannot be cut
/// into equal shards.
[[nodiscard]] Shards shards_of(std::string_view collective, const TensorView& full, int ranks);
/// The same, and ShapeError for a dtype that reduce_scatter does not sum.
[[nodiscard]] Shards summable_shards_of(const TensorView& full, int ranks);

/// Submit the two collectives, as `rank` sees them, around `enqueue` (Stream::submit).
void submit_all_gather(Stream& comm, const Shards& full, int rank, const Tag& tag,
                       FunctionRef<void()> enqueue);
void submit_reduce_scatter(Stream& comm, const Shards& full, const Tag& tag,
                           FunctionRef<void()> enqueue);

/// sum[i] = ((parts[0][i] + parts[1][i]) + parts[2][i]) + ... over `bytes` bytes of f32 or f64.
/// `sum` may be one of the parts.
void sum_in_rank_order(DType dtype, std::span<const std::byte* const> parts, std::size_t bytes,
                       std::byte* sum);

}  // namespace strata
