// Names of the table's values, and the table as text, which `strata plan` prints.

#include "strata/store/block_plan.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

namespace strata {

std::string_view name_of(Home home) {
  switch (home) {
    case Home::kDevice: return "device";
    case Home::kPinned: return "pinned";
    case Home::kPageable: return "pageable";
    case Home::kRing: return "ring";
    case Home::kPassing: return "passing";
    case Home::kNone: return "none";
  }
  return "?";
}

std::string_view name_of(SumPlace place) {
  switch (place) {
    case SumPlace::kNone: return "none";
    case SumPlace::kDevice: return "device";
    case SumPlace::kHost: return "host";
  }
  return "?";
}

std::string_view name_of(UpdatedBy who) {
  switch (who) {
    case UpdatedBy::kNobody: return "nobody";
    case UpdatedBy::kHost: return "host";
    case UpdatedBy::kResident: return "resident";
    case UpdatedBy::kShuttle: return "shuttle";
  }
  return "?";
}

std::string_view name_of(UpdateTime when) {
  switch (when) {
    case UpdateTime::kNever: return "never";
    case UpdateTime::kOnArrival: return "on arrival";
    case UpdateTime::kDecided: return "decided";
    case UpdateTime::kBeforeLoad: return "before load";
    case UpdateTime::kSpeculated: return "speculated";
  }
  return "?";
}

Space space_of(Home home) {
  switch (home) {
    case Home::kDevice: return Space::kDevice;
    case Home::kPinned: return Space::kPinned;
    case Home::kPageable: return Space::kPageable;
    default:
      throw std::logic_error("a tensor has no memory of its own: " + std::string(name_of(home)));
  }
}

std::size_t StatePlan::updated_bytes() const {
  const std::size_t low = compute == DType::kBF16 ? size_of(DType::kI16) : 0;
  return size_of(compute) + low + 2 * size_of(moment);
}

std::string to_string(const PerBlock<BlockPlan>& blocks, const PerBlock<std::string>& names) {
  constexpr std::size_t kColumns = 9;
  using Line = std::array<std::string, kColumns>;
  std::vector<Line> lines{{"blocks", "", "weight", "moments", "gradient", "travels", "summed",
                           "updated by", "updated"}};
  for (BlockId first{0}; first.index() < blocks.size();) {
    const BlockPlan& row = blocks[first];
    BlockId last = first;
    while (last.next().index() < blocks.size() && blocks[last.next()] == row) last = last.next();
    const int count = last.value() - first.value() + 1;
    lines.push_back({names[first] + (count > 1 ? " .. " + names[last] : ""), std::to_string(count),
                     std::string(name_of(row.weight)), std::string(name_of(row.moments)),
                     std::string(name_of(row.gradient)), std::string(name_of(row.travels)),
                     std::string(name_of(row.sums)), std::string(name_of(row.updated_by)),
                     std::string(name_of(row.updated))});
    first = last.next();
  }
  std::array<std::size_t, kColumns> widths{};
  for (const Line& line : lines) {
    for (std::size_t c = 0; c < kColumns; ++c) widths[c] = std::max(widths[c], line[c].size());
  }
  std::string text;
  for (const Line& line : lines) {
    for (std::size_t c = 0; c < kColumns; ++c) {
      text += "  " + line[c];
      if (c + 1 < kColumns) text += std::string(widths[c] - line[c].size(), ' ');
    }
    text += "\n";
  }
  return text;
}

}  // namespace strata
