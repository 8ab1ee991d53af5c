// Names the values of the table of blocks, and writes the table as text, which `strata plan`
// prints. The rows themselves are made by plan_state().

#include "strata/store/block_plan.h"

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <vector>

#include "strata/ops/moment_codes.h"
#include "strata/store/chunks.h"

namespace strata {

namespace {

/// What is true of one home.
struct HomeTraits {
  Home home;
  std::string_view name;
  std::optional<Space> space;  ///< where a tensor has memory of its own; absent: it has none
};

/// All homes; kNone is the last of their values.
constexpr std::array kHomes{
    HomeTraits{Home::kDevice, "device", Space::kDevice},
    HomeTraits{Home::kPinned, "pinned", Space::kPinned},
    HomeTraits{Home::kPageable, "pageable", Space::kPageable},
    HomeTraits{Home::kRing, "ring", std::nullopt},
    HomeTraits{Home::kPassing, "passing", std::nullopt},
    HomeTraits{Home::kNone, "none", std::nullopt},
};
static_assert(kHomes.size() == static_cast<std::size_t>(Home::kNone) + 1, "each home has a row");

const HomeTraits& traits_of(Home home) {
  return *std::ranges::find(kHomes, home, &HomeTraits::home);
}

}  // namespace

std::string_view name_of(Home home) { return traits_of(home).name; }

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
    case UpdatedBy::kMuon: return "muon";
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
  const HomeTraits& traits = traits_of(home);
  if (traits.space) return *traits.space;
  throw std::logic_error("a tensor has no memory of its own: " + std::string(traits.name));
}

std::size_t StatePlan::chunk_bytes() const {
  return static_cast<std::size_t>(chunk_factor) * kChunkBytes;
}

std::size_t StatePlan::updated_bytes(std::int64_t parameters) const {
  const std::size_t low = has_low() ? size_of(DType::kI16) : 0;
  const std::size_t each =
      size_of(compute) + low + static_cast<std::size_t>(moments) * size_of(moment);
  const std::int64_t of_codes = (parameters + kMomentBlock - 1) / kMomentBlock;
  const std::int64_t scales = moment == kMomentCode ? of_codes * kMomentScales : 0;
  return static_cast<std::size_t>(parameters) * each + static_cast<std::size_t>(scales);
}

namespace {

/// Returns "4 on device", or "one" if there is nothing to add.
std::string sums_text(const BlockPlan& row) {
  if (row.sums == SumPlace::kNone) return "one";
  return std::to_string(row.contributions) + " on " + std::string(name_of(row.sums));
}

/// Returns in which form weights cross the link.
std::string travels_text(const BlockPlan& row, DType compute) {
  return std::string(row.form == Form::kPlain ? name_of(compute) : name_of(row.form));
}

}  // namespace

std::string to_string(const StatePlan& plan, const PerBlock<std::string>& names) {
  const PerBlock<BlockPlan>& blocks = plan.blocks;
  constexpr std::size_t kColumns = 9;
  using Line = std::array<std::string, kColumns>;
  std::vector<Line> lines{{"blocks", "weight", "moments", "gradient", "travels", "summed",
                           "updated by", "updated", "which"}};
  std::vector<BlockId> shown;  // the first block of each line
  for (const BlockId first : blocks.ids()) {
    const BlockPlan& row = blocks[first];
    const auto same = [&](BlockId b) { return blocks[b] == row; };
    if (std::any_of(shown.begin(), shown.end(), same)) continue;
    shown.push_back(first);
    int count = 0;
    std::string which;
    for (BlockId b = first; b.index() < blocks.size(); b = b.next()) {
      if (!same(b)) continue;
      BlockId last = b;
      while (last.next().index() < blocks.size() && same(last.next())) last = last.next();
      which += (which.empty() ? "" : ", ") + names[b] + (last == b ? "" : " .. " + names[last]);
      count += last.value() - b.value() + 1;
      b = last;
    }
    lines.push_back(
        {std::to_string(count), std::string(name_of(row.weight)), std::string(name_of(row.moments)),
         std::string(name_of(row.gradient)) + " " + std::string(name_of(row.gradient_dtype)),
         travels_text(row, plan.compute), sums_text(row), std::string(name_of(row.updated_by)),
         std::string(name_of(row.updated)), which});
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
