// Brings the tables of the rotary embedding to the device.
#pragma once

#include "strata/device/device.h"
#include "strata/model/llama_memory.h"

namespace strata {

/// Brings the tables, rounded, to the device and waits for it. On a dry device, which does not look
/// at values, none are computed.
void fill_rope_tables(const RopeMemory& memory, const RopeSpec& rope, Device& device);

}  // namespace strata
