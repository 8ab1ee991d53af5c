// Tests what the batch store hands out of a pass: where its parts lie, and how many entries the
// segment tables have that kernels see.

#include "strata/store/batch_store.h"

#include <vector>

#include "strata/base/bytes.h"
#include "strata/ops/backend.h"
#include "strata/store/memory_plan.h"
#include "support/catch.h"

namespace strata::test {
namespace {

/// A cpu device with the store of two sub-batches of two rows of four tokens.
struct Machine {
  explicit Machine(DocumentMask mask)
      : shape{.batch = {.rows = 2, .tokens = 4, .sub_batches = 2}, .mask = mask} {}

  BatchStoreShape shape;
  Backend backend = make_backend(BackendKind::kCpu, {.device = {}, .threads = 1});
  Arena device{*backend.device, Space::kDevice, kMiB, "device"};
  Arena pinned{*backend.device, Space::kPinned, kMiB, "pinned"};
  Arena pageable{*backend.device, Space::kPageable, kMiB, "pageable"};
  Arenas arenas{device, pinned, pageable};
  BatchStore store{shape, arenas};

  /// Fills a slot: a table's number n is n, counted over all sub-batches.
  void fill(int slot, const std::vector<std::int64_t>& counts) {
    const PassBuffers buffers = store.host(slot);
    for (std::size_t i = 0; i < buffers.segments.size(); ++i) {
      buffers.segments[i] = static_cast<std::int32_t>(i);
    }
    for (std::size_t s = 0; s < counts.size(); ++s) buffers.segment_counts[s] = counts[s];
  }
  [[nodiscard]] std::vector<ConstTensorView> tables(int slot) {
    const BatchLease batch = store.upload(slot, backend.device->stream(Lane::kCompute), {});
    backend.device->synchronize();
    std::vector<ConstTensorView> views;
    for (const CellBatch& cell : batch.cells) views.push_back(cell.segments.table);
    return views;
  }
};

TEST_CASE("kernels see the documents of a sub-batch, not the room that there is for them") {
  Machine machine(DocumentMask::kOn);
  machine.fill(0, {3, 8});
  machine.fill(1, {2, 5});
  for (const auto& [slot, counts] :
       {std::pair{0, std::pair{3, 8}}, std::pair{1, std::pair{2, 5}}}) {
    INFO("slot " << slot);
    const std::vector<ConstTensorView> tables = machine.tables(slot);
    REQUIRE(tables.size() == 2);
    CHECK(tables[0].shape == Shape{counts.first, kSegmentColumns});
    CHECK(tables[1].shape == Shape{counts.second, kSegmentColumns});
    // The second sub-batch's table lies behind the room for the first one's.
    CHECK(tables[0].as<std::int32_t>()[0] == 0);
    CHECK(tables[1].as<std::int32_t>()[0] == 8 * kSegmentColumns);
  }
}

TEST_CASE("a pass whose segments are not counted has whole tables, whatever was counted before") {
  Machine machine(DocumentMask::kOn);
  machine.fill(0, {3, 8});
  CHECK(machine.tables(0)[0].rows() == 3);
  machine.fill(0, {});
  for (const ConstTensorView& table : machine.tables(0)) CHECK(table.rows() == 8);
}

TEST_CASE("without document masks there is an entry for each row") {
  Machine machine(DocumentMask::kOff);
  machine.fill(0, {2, 2});
  for (const ConstTensorView& table : machine.tables(0)) CHECK(table.rows() == 2);
}

}  // namespace
}  // namespace strata::test
