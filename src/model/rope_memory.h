// Brings the tables of the rotary embedding to the device.
#pragma once

#include "strata/device/device.h"
#include "strata/model/llama_memory.h"
#include "strata/ops/rope.h"

namespace strata {

/// Brings the tables for rows of `row_tokens`, rounded, to the device and waits for it. On a dry
/// device, which does not look at values, none are computed.
void fill_rope_tables(const RopeTables& tables, std::int64_t row_tokens, Device& device);

/// Returns the rotation of queries and keys, with which the rows of `packed` begin.
[[nodiscard]] Rope rope_of(const AttentionSpec& spec, const TensorView& packed,
                           const RopeTables& tables, const ConstTensorView& positions);

}  // namespace strata
