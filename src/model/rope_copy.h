// How the model's scratch gets the table of the rotary embedding.
#pragma once

#include <cstddef>
#include <span>

#include "strata/base/tensor.h"
#include "strata/device/device.h"
#include "strata/model/spec.h"

namespace strata {

/// Brings the table, rounded, to `cos` and `sin` [positions, D/2] on the device, by pinned memory
/// for one of them, and waits for it. On a dry device, which does not look at values, none are
/// computed.
void copy_rope_table(const RopeSpec& rope, Device& device, const TensorView& cos,
                     const TensorView& sin, std::span<std::byte> staging);

}  // namespace strata
