// The sum over ranks of implementations that hold all contributions in host memory: MPI's and that
// of ranks in threads. It adds in the order of ranks, which gives the same bits in every run; that
// is a property of these implementations, and no caller may rely on it.
#pragma once

#include <cstddef>
#include <span>

#include "strata/base/dtype.h"

namespace strata {

/// Computes sum[i] = ((parts[0][i] + parts[1][i]) + parts[2][i]) + ... over `bytes` bytes of f32 or
/// f64, where parts[r] is what rank r contributes. `sum` may be one of the parts.
void sum_in_rank_order(DType dtype, std::span<const std::byte* const> parts, std::size_t bytes,
                       std::byte* sum);

/// Computes the same sum of f64 `values`, where `all` has the values of one rank after the other.
void sum_in_rank_order(std::span<const std::byte> all, std::span<double> values);

}  // namespace strata
