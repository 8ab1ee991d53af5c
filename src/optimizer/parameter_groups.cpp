// Finds the entries that match tensors. Tensors that one matrix holds one below the other (q, k and
// v; gate and up) may be of different groups: they are runs of their own then, and one run if not.

#include "strata/optimizer/parameter_groups.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "strata/base/log.h"
#include "strata/base/suggestion.h"
#include "strata/base/text.h"
#include "strata/model/named_value.h"
#include "strata/ops/moment_codes.h"

namespace strata {

namespace {

constexpr double kMostFactor = 1e6;  ///< of a learning rate, and of a decay: no sum leaves an f32
constexpr std::size_t kMostEntries = 64;

/// Returns whether a name matches a pattern, in which "*" stands for any characters or none.
bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = pattern.npos;  // the last one so far, which takes up to `taken`
  std::size_t taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != pattern.npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

/// Returns the value of the first entry that matches a tensor, or `otherwise` if none does.
double value_of(const std::vector<std::string>& entries, std::string_view tensor,
                double otherwise) {
  for (const std::string& text : entries) {
    const std::optional<NamedValue> entry = parse_named_value(text);
    if (entry && matches(entry->name, tensor)) return entry->value;
  }
  return otherwise;
}

/// What tensors of a group have in common.
struct Group {
  double lr_factor = 1;
  double weight_decay = 0;
  auto operator<=>(const Group&) const = default;
};

Group group_of(const Segment& segment, const SourceTensor& tensor,
               const OptimizerOptions& options) {
  const bool decays = segment.decay || options.decay_norms;
  return {.lr_factor = value_of(options.lr_factors, tensor.name, 1.0),
          .weight_decay =
              value_of(options.weight_decays, tensor.name, decays ? options.weight_decay : 0.0)};
}

/// Calls `visit` with every tensor that is trained and its segment.
template <class Visit>
void for_each_trained(const ModelLayout& layout, const Visit& visit) {
  for (const BlockId b : layout.blocks.ids()) {
    if (!layout.is_trained(b)) continue;
    for (const Segment& segment : layout.blocks[b].segments) {
      for (const SourceTensor& tensor : segment.sources) visit(segment, tensor);
    }
  }
}

/// Checks the entries of a key against the names of tensors.
void check_entries(const std::vector<std::string>& entries, const std::string& key,
                   const std::vector<std::string>& names, ConfigProblems& problems) {
  if (entries.size() > kMostEntries) {
    problems.add(key, "has more than " + std::to_string(kMostEntries) + " entries; give fewer");
    return;
  }
  for (const std::string& text : entries) {
    const std::string shown = "\"" + shortened(printable_name(text)) + "\" ";
    const std::optional<NamedValue> entry = parse_named_value(text);
    if (!entry || entry->value < 0 || entry->value > kMostFactor) {
      problems.add(key, shown +
                            "is not a name and its value, from 0 to 1e6; write it like "
                            "\"lm_head.weight=0.5\"");
      continue;
    }
    const auto is_meant = [&](const std::string& name) { return matches(entry->name, name); };
    if (std::ranges::any_of(names, is_meant)) continue;
    const std::optional<std::string> near = nearest_path(entry->name, names);
    problems.add(key, shown + "matches no tensor that is trained; " +
                          (near ? "did you mean " + *near + "?"
                                : "names are like " + names.front() +
                                      ", and * stands for any "
                                      "characters"));
  }
}

}  // namespace

bool has_whole_matrices(const Block& block, const Segment& segment) {
  return block.kind == UnitKind::kLayer && segment.decay && !is_of_adapter(segment.initializer);
}

PerBlock<std::vector<ParameterRun>> parameter_runs(const ModelLayout& layout,
                                                   const OptimizerOptions& options) {
  PerBlock<std::vector<ParameterRun>> all;
  for (const Block& block : layout.blocks) {
    std::vector<ParameterRun> runs;
    for (const Segment& segment : block.segments) {
      std::int64_t begin = segment.offset;
      const bool whole = options.kind == OptimizerKind::kMuon && has_whole_matrices(block, segment);
      for (const SourceTensor& tensor : segment.sources) {
        const Group group = group_of(segment, tensor, options);
        const bool goes_on = !whole && !runs.empty() && runs.back().segment == &segment &&
                             group == Group{runs.back().lr_factor, runs.back().weight_decay};
        if (!goes_on) {
          if (!runs.empty()) runs.back().end = begin;
          runs.push_back({.segment = &segment,
                          .begin = begin,
                          .lr_factor = group.lr_factor,
                          .weight_decay = group.weight_decay,
                          .rows = whole ? tensor.rows : 0});
        }
        begin += tensor.rows * segment.cols;
      }
    }
    if (!runs.empty()) runs.back().end = std::numeric_limits<std::int64_t>::max();
    all.push_back(std::move(runs));
  }
  return all;
}

void check_parameter_groups(const ModelLayout& layout, const OptimizerOptions& options,
                            DType moment, ConfigProblems& problems) {
  std::vector<std::string> names;
  for_each_trained(
      layout, [&](const Segment&, const SourceTensor& tensor) { names.push_back(tensor.name); });
  check_entries(options.lr_factors, "optimizer.lr_factors", names, problems);
  check_entries(options.weight_decays, "optimizer.weight_decays", names, problems);
  if (moment != kMomentCode || !problems.empty()) return;
  for (const std::vector<ParameterRun>& runs : parameter_runs(layout, options)) {
    for (const ParameterRun& run : runs) {
      if (run.begin % kMomentBlock == 0) continue;
      problems.add("optimizer.moment_dtype",
                   "8bit shares scales among " + std::to_string(kMomentBlock) +
                       " parameters, of which optimizer.lr_factors or weight_decays tell some of " +
                       run.segment->name +
                       " apart; let them match all tensors of it, or set this "
                       "to \"bf16\"");
      return;
    }
  }
}

std::string parameter_groups_text(const ModelLayout& layout, const OptimizerOptions& options) {
  std::map<Group, int> tensors;
  for_each_trained(layout, [&](const Segment& segment, const SourceTensor& tensor) {
    ++tensors[group_of(segment, tensor, options)];
  });
  std::string text;
  for (const auto& [group, count] : tensors) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) +
            (count == 1 ? " tensor" : " tensors") + " with weight decay " +
            fmt::format("{}", group.weight_decay);
    if (group.lr_factor != 1) text += fmt::format(" and lr times {}", group.lr_factor);
  }
  return text;
}

}  // namespace strata
