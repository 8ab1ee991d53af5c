// Puts into words what a lane is at.

#include "strata/device/lane_state.h"

#include "device/trace_impl.h"

namespace strata {

namespace {

std::string_view verb(LaneState::Doing doing) {
  switch (doing) {
    case LaneState::Doing::kNothing: return "has nothing to do";
    case LaneState::Doing::kRuns: return "runs";
    case LaneState::Doing::kWaits: return "waits to run";
    case LaneState::Doing::kQueued: return "has not finished what was submitted up to";
  }
  return "";
}

}  // namespace

std::string text_of(Lane lane, const LaneState& state) {
  std::string text =
      "the " + std::string(name_of(lane)) + " lane " + std::string(verb(state.doing));
  if (state.doing == LaneState::Doing::kNothing) return text;
  text.append(" \"").append(state.work.name).append("\"");
  const std::string tag = text_of(state.work.tag);
  if (!tag.empty()) text += " (" + tag.substr(1) + ")";
  if (state.waits_for) text += " after " + text_of(*state.waits_for);
  return text;
}

}  // namespace strata
