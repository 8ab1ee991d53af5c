// Takes what stores want for each block: rows of equal blocks, one after the other.

#include "strata/store/take_for_blocks.h"

#include "strata/store/packed_block.h"

namespace strata {

void take_for_blocks(const ModelLayout& layout, const StatePlan& plan, Allocator& memory,
                     FunctionRef<void(BlockId)> take, const PerBlock<std::uint8_t>& marks) {
  const auto alike = [&](BlockId a, BlockId b) {
    const Block& one = layout.blocks[a];
    const Block& other = layout.blocks[b];
    return one.elements == other.elements && one.kind == other.kind &&
           plan.blocks[a] == plan.blocks[b] &&
           weight_shape(one, plan.blocks[a].form, plan) ==
               weight_shape(other, plan.blocks[b].form, plan) &&
           (marks.size() == 0 || marks[a] == marks[b]);
  };
  const std::size_t blocks = layout.blocks.size();
  for (BlockId first(0); first.index() < blocks;) {
    BlockId end = first.next();
    while (end.index() < blocks && alike(first, end)) end = end.next();
    BlockId next = first;
    memory.repeat(end.index() - first.index(), [&] {
      take(next);
      next = next.next();
    });
    first = end;
  }
}

}  // namespace strata
