#include "strata/store/kept_store.h"

#include <algorithm>
#include <string>

#include "strata/base/bytes.h"
#include "strata/device/device.h"

namespace strata {

std::size_t KeepPlan::count(KeepLevel level) const {
  return static_cast<std::size_t>(std::count(levels.begin(), levels.end(), level));
}

std::size_t kept_bytes(std::span<const KeptTensor> tensors, KeepLevel level) {
  std::size_t bytes = 0;
  for (const KeptTensor& tensor : tensors) {
    if (tensor.from == level) bytes += round_up(tensor.bytes(), Arena::kAlignment);
  }
  return bytes;
}

void KeptStore::plan(MemoryPlan& memory, std::span<const KeptTensor> tensors,
                     const KeepPlan& plan) {
  for (const KeptTensor& tensor : tensors) {
    const auto keepers = static_cast<std::size_t>(
        std::count_if(plan.levels.begin(), plan.levels.end(),
                      [&](KeepLevel level) { return level >= tensor.from; }));
    if (keepers == 0) continue;
    memory.add_slots(Space::kDevice, std::string(tensor.name), keepers, tensor.bytes());
  }
}

KeptStore::KeptStore(std::span<const KeptTensor> tensors, const KeepPlan& plan, Arena& device_arena)
    : tensors_(tensors.begin(), tensors.end()), plan_(plan), kept_(plan.levels.size()) {
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    for (const KeptTensor& tensor : tensors_) {
      if (plan_.levels[i] < tensor.from) continue;
      kept_[i].*tensor.view = device_arena.allocate_tensor(tensor.name, tensor.dtype, tensor.shape);
    }
  }
}

const KeptActivations& KeptStore::fill(int layer, int cell, Stream& compute) {
  const KeptActivations& kept = at(layer, cell);
  if (!compute.device().options().poison_slots) return kept;
  for (const KeptTensor& tensor : tensors_) {
    const TensorView& view = kept.*tensor.view;
    if (view) compute.set(view.data, 0xff, tensor.bytes(), {.phase = "poison"});
  }
  return kept;
}

}  // namespace strata
