// What cells keep between forward and backward.

#include "strata/store/kept_store.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/model/llama.h"
#include "strata/ops/backend.h"
#include "support/catch.h"
#include "support/tiny_model.h"

namespace strata::test {
namespace {

constexpr LlamaSizes kSizes{
    .compute = DType::kBF16, .row_tokens = 7, .cell_tokens = 14, .head_chunk = 14};

/// 2 layers of 3 cells, of every level and one of them twice.
KeepPlan mixed_plan() {
  KeepPlan plan(2, 3, KeepLevel::kSelective);
  std::copy(std::begin(kKeepLevels), std::end(kKeepLevels), plan.levels.begin());
  return plan;
}

}  // namespace

TEST_CASE("a cell has memory of its own for what its level keeps and nothing else") {
  const std::vector<KeptTensor> tensors = Llama::kept_tensors(tiny_model(), kSizes);
  const KeepPlan plan = mixed_plan();
  const Backend backend = make_backend(BackendKind::kCpu, {});
  Arena arena(*backend.device, Space::kDevice, kMiB, "device");
  const KeptStore store(tensors, plan, arena);
  MemoryPlan memory;
  KeptStore::plan(memory, tensors, plan);
  CHECK(arena.used() == memory.total(Space::kDevice));
  std::vector<ByteRange> ranges;
  for (int layer = 0; layer < 2; ++layer) {
    for (int cell = 0; cell < 3; ++cell) {
      const KeepLevel level = plan.levels[plan.index(layer, cell)];
      const KeptActivations& kept = store.at(layer, cell);
      CHECK(static_cast<bool>(kept.o) == (level >= KeepLevel::kAttention));
      CHECK(static_cast<bool>(kept.lse) == (level >= KeepLevel::kAttention));
      CHECK(static_cast<bool>(kept.x_mid) == (level >= KeepLevel::kAttentionOut));
      CHECK(static_cast<bool>(kept.qkv) == (level >= KeepLevel::kSelective));
      CHECK(static_cast<bool>(kept.gate_up) == (level >= KeepLevel::kFull));
      for (const TensorView& view : {kept.o, kept.lse, kept.x_mid, kept.qkv, kept.gate_up}) {
        if (view) ranges.push_back(view.bytes());
      }
    }
  }
  CHECK(ranges.size() == 2 + 3 + 4 + 5 + 4);
  std::sort(ranges.begin(), ranges.end(),
            [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    CHECK(ranges[i - 1].begin + ranges[i - 1].bytes <= ranges[i].begin);
  }
}

TEST_CASE("a level takes the aligned bytes of the tensors that it adds") {
  const std::vector<KeptTensor> tensors = Llama::kept_tensors(tiny_model(), kSizes);
  CHECK(kept_bytes(tensors, KeepLevel::kRecompute) == 0);
  CHECK(kept_bytes(tensors, KeepLevel::kAttention) == 768 + 256);  // 14 * 24 * 2, 4 * 14 * 4
  CHECK(kept_bytes(tensors, KeepLevel::kAttentionOut) == 768);     // 14 * 20 * 2
  CHECK(kept_bytes(tensors, KeepLevel::kSelective) == 1536);       // 14 * 48 * 2
  CHECK(kept_bytes(tensors, KeepLevel::kFull) == 1536);            // 14 * 54 * 2
}

TEST_CASE("what a cell kept is poisoned before it is written again, if asked for") {
  for (const bool poison : {false, true}) {
    BackendOptions options;
    options.device.poison_slots = poison;
    const Backend backend = make_backend(BackendKind::kCpu, options);
    Arena arena(*backend.device, Space::kDevice, kMiB, "device");
    KeptStore store(Llama::kept_tensors(tiny_model(), kSizes), mixed_plan(), arena);
    Stream& compute = backend.device->stream(Lane::kCompute);
    const auto mark = [&](const TensorView& view) {
      backend.kernels->run(
          compute, Fill{.x = TensorView(view.data, view.dtype, Shape{view.elements()}), .value = 1},
          {});
    };
    mark(store.at(0, 2).x_mid);
    mark(store.at(1, 0).x_mid);
    const KeptActivations& kept = store.fill(0, 2, compute);
    backend.device->synchronize();
    const bool is_one = static_cast<float>(kept.x_mid.as<Bf16>()[279]) == 1.0f;
    CHECK(is_one == !poison);
    CHECK(static_cast<float>(store.at(1, 0).x_mid.as<Bf16>()[0]) == 1.0f);
  }
}

}  // namespace strata::test
