// Tests what cells keep between forward and backward: which bytes each level takes, against sizes
// that the model names, and that what is spilled comes back as it was written.

#include "strata/store/kept_store.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/model/families.h"
#include "strata/model/llama.h"
#include "strata/ops/backend.h"
#include "strata/store/memory_plan.h"
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
  plan.reach = plan.levels;
  return plan;
}

/// The same, and all but one cell spill up to a level of their own.
KeepPlan spilling_plan(int slots) {
  KeepPlan plan = mixed_plan();
  plan.slots = slots;
  plan.reach = {KeepLevel::kFull,      KeepLevel::kAttentionOut, KeepLevel::kFull,
                KeepLevel::kSelective, KeepLevel::kFull,         KeepLevel::kFull};
  plan.levels[4] = KeepLevel::kSelective;
  return plan;
}

std::vector<TensorView> views_of(const KeptActivations& kept) {
  std::vector<TensorView> views;
  for (const TensorView& view : {kept.o, kept.lse, kept.x_mid, kept.qkv, kept.gate_up}) {
    if (view) views.push_back(view);
  }
  return views;
}

TensorView flat(const TensorView& view) { return {view.data, view.dtype, Shape{view.elements()}}; }

double first_and_last(const TensorView& view) {
  const auto value = [&](std::int64_t i) {
    return view.dtype == DType::kBF16 ? static_cast<float>(view.as<Bf16>()[i])
                                      : view.as<float>()[i];
  };
  const float last = value(view.elements() - 1);
  return value(0) == last ? static_cast<double>(last) : -1.0;
}

}  // namespace

TEST_CASE("a cell has memory of its own for what its level keeps and nothing else") {
  const std::vector<KeptTensor> tensors = Llama::kept_tensors(spec_of(tiny_model()), kSizes);
  const KeepPlan plan = mixed_plan();
  const Backend backend = make_backend(BackendKind::kCpu, {});
  Arena arena(*backend.device, Space::kDevice, kMiB, "device");
  Arena pinned(*backend.device, Space::kPinned, kMiB, "pinned");
  Arenas arenas(arena, pinned, pinned);
  KeptStore store(tensors, plan, arenas);
  Stream& compute = backend.device->stream(Lane::kCompute);
  MemoryPlan memory;
  KeptStore::Memory(tensors, plan, memory);
  CHECK(arena.used() == memory.total(Space::kDevice));
  CHECK(pinned.used() == 0);
  std::vector<ByteRange> ranges;
  for (int layer = 0; layer < 2; ++layer) {
    for (int cell = 0; cell < 3; ++cell) {
      const KeepLevel level = plan.levels[plan.index(layer, cell)];
      const KeptActivations kept = store.acquire(layer, cell, compute, {}).activations;
      CHECK(static_cast<bool>(kept.o) == (level >= KeepLevel::kAttention));
      CHECK(static_cast<bool>(kept.lse) == (level >= KeepLevel::kAttention));
      CHECK(static_cast<bool>(kept.x_mid) == (level >= KeepLevel::kAttentionOut));
      CHECK(static_cast<bool>(kept.qkv) == (level >= KeepLevel::kSelective));
      CHECK(static_cast<bool>(kept.gate_up) == (level >= KeepLevel::kFull));
      for (const TensorView& view : views_of(kept)) ranges.push_back(view.bytes());
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
  const std::vector<KeptTensor> tensors = Llama::kept_tensors(spec_of(tiny_model()), kSizes);
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
    Arena pinned(*backend.device, Space::kPinned, kMiB, "pinned");
    Arenas arenas(arena, pinned, pinned);
    KeptStore store(Llama::kept_tensors(spec_of(tiny_model()), kSizes), mixed_plan(), arenas);
    Stream& compute = backend.device->stream(Lane::kCompute);
    const auto x_mid_of = [&](int layer, int cell) {
      return store.acquire(layer, cell, compute, {}).activations.x_mid;
    };
    for (const TensorView& view : {x_mid_of(0, 2), x_mid_of(1, 0)}) {
      backend.kernels->run(compute, Fill{.x = flat(view), .value = 1}, {});
    }
    const KeptActivations kept = store.fill(0, 2, compute).activations;
    backend.device->synchronize();
    const bool is_one = static_cast<float>(kept.x_mid.as<Bf16>()[279]) == 1.0f;
    CHECK(is_one == !poison);
    CHECK(static_cast<float>(x_mid_of(1, 0).as<Bf16>()[0]) == 1.0f);
  }
}

TEST_CASE("what cells spill takes what was planned, on the device and on the host") {
  const std::vector<KeptTensor> tensors = Llama::kept_tensors(spec_of(tiny_model()), kSizes);
  const Backend backend = make_backend(BackendKind::kCpu, {});
  Arena arena(*backend.device, Space::kDevice, kMiB, "device");
  Arena pinned(*backend.device, Space::kPinned, kMiB, "pinned");
  Arenas arenas(arena, pinned, pinned);
  const KeptStore store(tensors, spilling_plan(2), arenas);
  MemoryPlan memory;
  KeptStore::Memory(tensors, spilling_plan(2), memory);
  CHECK(arena.used() == memory.total(Space::kDevice));
  CHECK(pinned.used() == memory.total(Space::kPinned));
  // Of six cells: all of it; x_mid; qkv and gate_up; nothing (selective already); gate_up, twice.
  constexpr std::size_t kAll = 1024 + 768 + 1536 + 1536;
  CHECK(pinned.used() == kAll + 768 + (1536 + 1536) + 1536 + 1536);
  const auto slots =
      std::find_if(memory.entries().begin(), memory.entries().end(),
                   [](const MemoryPlan::Entry& e) { return e.name == "kept.slots"; });
  REQUIRE(slots != memory.entries().end());
  CHECK(slots->bytes == 2 * kAll);
}

TEST_CASE("what cells spill comes back as it was, whatever the slots, and may be used up") {
  const std::vector<KeptTensor> tensors = Llama::kept_tensors(spec_of(tiny_model()), kSizes);
  for (const int slots : {1, 2, 3, 8}) {
    for (const Execution execution : {Execution::kEager, Execution::kShuffled}) {
      INFO(slots << " slots");
      BackendOptions options;
      options.device.execution = execution;
      options.device.poison_slots = true;
      const Backend backend = make_backend(BackendKind::kCpu, options);
      Arena arena(*backend.device, Space::kDevice, kMiB, "device");
      Arena pinned(*backend.device, Space::kPinned, kMiB, "pinned");
      Arenas arenas(arena, pinned, pinned);
      KeptStore store(tensors, spilling_plan(slots), arenas);
      Stream& compute = backend.device->stream(Lane::kCompute);
      const auto set_all = [&](const KeptActivations& kept, double value) {
        for (const TensorView& view : views_of(kept)) {
          backend.kernels->run(compute, Fill{.x = flat(view), .value = value++}, {});
        }
      };
      for (int pass = 0; pass < 2; ++pass) {
        const auto value_of = [&](int layer, int cell) {
          return 50.0 * pass + 24 * layer + 8 * cell;
        };
        std::vector<KeptStore::Read> reads;
        for (int layer = 1; layer >= 0; --layer) {
          for (int cell = 0; cell < 3; ++cell) reads.push_back({layer, cell});
        }
        store.begin_pass(reads);
        for (int layer = 0; layer < 2; ++layer) {
          for (int cell = 0; cell < 3; ++cell) {
            KeptLease kept = store.fill(layer, cell, compute);
            set_all(kept.activations, value_of(layer, cell));
            store.keep(std::move(kept), {});
          }
        }
        for (const KeptStore::Read& read : reads) {
          const KeptLease kept = store.acquire(read.layer, read.cell, compute, {});
          store.prefetch({});
          backend.device->synchronize();
          double expected = value_of(read.layer, read.cell);
          for (const TensorView& view : views_of(kept.activations)) {
            CHECK(first_and_last(view) == expected++);
          }
          set_all(kept.activations, -1);
        }
      }
      CHECK(store.spilled_bytes() == 2 * pinned.used());
      if (slots < 5) CHECK(store.loaded_bytes() >= store.spilled_bytes() / 2);
    }
  }
}

}  // namespace strata::test
