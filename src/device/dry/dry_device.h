// Makes the device of the dry backend. Stores, model and schedule use it as any other and do not
// know that nothing runs.
#pragma once

#include <memory>

#include "strata/device/device.h"

namespace strata {

/// Makes the abstract machine without memory or work: what is submitted goes to the trace and
/// counts as finished. Memory is reserved address space. The host's may be written to, and takes
/// what is written; device memory may not be touched.
[[nodiscard]] std::unique_ptr<Device> make_dry_device(const DeviceOptions& options);

}  // namespace strata
