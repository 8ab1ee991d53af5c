// Computes the table of the rotary embedding and copies it to the device.

#include "rope_copy.h"

#include <utility>

#include "strata/base/convert.h"
#include "strata/model/rope_table.h"

namespace strata {

void copy_rope_table(const RopeSpec& rope, Device& device, const TensorView& cos,
                     const TensorView& sin, std::span<std::byte> staging) {
  Stream& in = device.stream(Lane::kActivationsIn);
  RopeTable table;
  if (device.info().backend != "dry") table = make_rope_table(rope, cos.shape[0]);
  for (const auto& [values, view] : {std::pair{&table.cos, &cos}, std::pair{&table.sin, &sin}}) {
    const std::size_t bytes = view->bytes().bytes;
    store_as(*values, view->dtype, staging);
    in.copy(view->data, staging.data(), bytes, {.phase = "start"});
    device.wait(in.record());
  }
}

}  // namespace strata
