// Tests that a memory plan adds up aligned bytes, against sums worked out by hand, and that equal
// blocks count as often as they are.

#include "strata/store/memory_plan.h"

#include <vector>

#include "strata/model/families.h"
#include "strata/store/take_for_blocks.h"
#include "support/catch.h"
#include "support/tiny_model.h"

namespace strata {

namespace {

/// It has memory as far as anyone can tell, and notes which bytes it was asked for.
class Asked final : public Allocator {
 public:
  std::byte* allocate(Space, std::string_view, std::size_t bytes) override {
    asked.push_back(bytes);
    return nullptr;
  }
  std::vector<std::size_t> asked;
};

}  // namespace

TEST_CASE("a plan is asked once for equal blocks in a row, memory for each block in order") {
  LlamaConfig model = test::tiny_model();
  model.num_hidden_layers = 7;  // blocks 1 to 7, between embedding and head
  const ModelLayout layout = make_layout(spec_of(model));
  StatePlan state;
  state.blocks = PerBlock<BlockPlan>(layout.blocks.size());
  state.blocks[BlockId(2)].weight = Home::kDevice;
  PerBlock<std::uint8_t> marks(layout.blocks.size());
  marks[BlockId(7)] = 1;
  const auto size = [&](BlockId b) {  // what may depend on all that is compared
    const std::size_t own = state.blocks[b].weight == Home::kDevice ? 256 : 512;
    return own + (marks[b] != 0 ? 1024 : 0) +
           256 * static_cast<std::size_t>(layout.blocks[b].elements);
  };
  const auto taken = [&](Allocator& memory) {
    std::vector<int> which;
    const auto take = [&](BlockId b) {
      which.push_back(b.value());
      static_cast<void>(memory.allocate(Space::kPinned, "a", size(b)));
    };
    take_for_blocks(layout, state, memory, take, marks);
    return which;
  };
  std::vector<int> each;
  std::vector<std::size_t> sizes;
  std::size_t sum = 0;
  for (const BlockId b : layout.blocks.ids()) {
    each.push_back(b.value());
    sizes.push_back(size(b));
    sum += size(b);
  }
  Asked memory;
  CHECK(taken(memory) == each);
  CHECK(memory.asked == sizes);
  MemoryPlan plan;
  CHECK(taken(plan) == std::vector<int>{0, 1, 2, 3, 7, 8});
  CHECK(plan.total(Space::kPinned) == sum);
}

TEST_CASE("a plan adds up aligned bytes by memory") {
  MemoryPlan plan;
  plan.allocate(Space::kDevice, "a", 1);
  plan.allocate(Space::kDevice, "a", 256);
  plan.allocate(Space::kPinned, "a", 300);
  for (int i = 0; i < 3; ++i) plan.allocate(Space::kPageable, "b", 10);
  CHECK(plan.entries().size() == 3);
  CHECK(plan.total(Space::kDevice) == 512);
  CHECK(plan.total(Space::kPinned) == 512);
  CHECK(plan.total(Space::kPageable) == 768);
  CHECK(plan.host_total() == 1280);
  CHECK(plan.bytes(Space::kDevice, "a") == 512);
  CHECK(plan.bytes(Space::kPageable, "b") == 768);
  CHECK(plan.bytes(Space::kDevice, "b") == 0);
}

TEST_CASE("a plan lists its largest entries first") {
  MemoryPlan plan;
  plan.allocate(Space::kDevice, "small", 256);
  plan.allocate(Space::kDevice, "large", 4096);
  const std::string text = plan.to_string();
  CHECK(text.find("large") < text.find("small"));
}

}  // namespace strata
