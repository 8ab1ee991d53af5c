// Judges ranks by what their lanes are at. A rank's lanes wait for each other, and what begins
// every chain of waits is a lane that runs something: that is what the rank is at. A collective, or
// a call that meets other ranks, is not the rank's fault; a checkpoint that is being written waits
// for a disk, which may be slow.
#include "launch/rank_watch.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "strata/base/log.h"

namespace strata {

namespace {

using Doing = LaneState::Doing;

const LaneState& lane_of(const RankView& view, Lane lane) {
  return view.lanes[static_cast<std::size_t>(lane)];
}

/// Returns whether the work that a lane runs is to be waited for because of other ranks.
bool meets(const RankView& view, Lane lane) {
  const auto on = [&](Channel channel) { return view.meets[static_cast<std::size_t>(channel)]; };
  switch (lane) {
    case Lane::kComm: {
      // Who has not begun a collective is not in it, and others may wait there for this rank.
      const LaneState& comm = lane_of(view, lane);
      return comm.doing == Doing::kRuns && comm.work.kind == SubmissionKind::kCollective;
    }
    case Lane::kHost: return on(Channel::kHost);
    case Lane::kSave: return on(Channel::kSave);
    default: return false;
  }
}

/// Returns the texts of lanes that do this, but for the save lane, "; " between them. `foreign`
/// says whether those are wanted that wait for other ranks.
std::string lanes_that(const RankView& view, Doing doing, bool foreign) {
  std::string text;
  for (int i = 0; i < kLaneCount; ++i) {
    const auto lane = static_cast<Lane>(i);
    const bool own_save = lane == Lane::kSave && !foreign;
    if (lane_of(view, lane).doing != doing || meets(view, lane) != foreign || own_save) continue;
    text += (text.empty() ? "" : "; ") + text_of(lane, lane_of(view, lane));
  }
  return text;
}

/// Returns whether a lane moved between two views. The save lane waits for a disk, which is not
/// what a run lives by.
bool moved(const RankView& from, const RankView& to) {
  for (int i = 0; i < kLaneCount; ++i) {
    const auto lane = static_cast<Lane>(i);
    if (lane != Lane::kSave && !lane_of(from, lane).same_as(lane_of(to, lane))) return true;
  }
  return false;
}

/// Returns how a rank is whose lanes have been like this for too long.
RankReport standing_still(const RankView& view) {
  if (std::string text = lanes_that(view, Doing::kRuns, false); !text.empty()) {
    return {.standing = Standing::kStuck, .text = std::move(text)};
  }
  if (lane_of(view, Lane::kSave).doing == Doing::kRuns && !meets(view, Lane::kSave)) {
    return {.standing = Standing::kUnwatched};
  }
  if (std::string text = lanes_that(view, Doing::kRuns, true); !text.empty()) {
    return {.standing = Standing::kMeets, .text = std::move(text)};
  }
  for (const Doing doing : {Doing::kQueued, Doing::kWaits}) {
    if (std::string text = lanes_that(view, doing, false); !text.empty()) {
      return {.standing = Standing::kStuck, .text = std::move(text)};
    }
  }
  if (view.meets[static_cast<std::size_t>(Channel::kSubmit)]) {
    return {.standing = Standing::kMeets, .text = "its submitting thread meets the other ranks"};
  }
  return {.standing = Standing::kIdle,
          .text = "its lanes have nothing to do, and nothing is submitted"};
}

}  // namespace

LetterBytes to_letter(const RankReport& report) {
  // The first byte is the standing, the second whether the text is a verdict, and the rest is text.
  LetterBytes letter{};
  const bool verdict = !report.verdict.empty();
  const std::string& text = verdict ? report.verdict : report.text;
  letter[0] = static_cast<std::byte>(report.standing);
  letter[1] = static_cast<std::byte>(verdict);
  std::memcpy(letter.data() + 2, text.data(), std::min(text.size(), kLetterBytes - 2));
  return letter;
}

RankReport from_letter(const LetterBytes& letter) {
  const auto* const text = reinterpret_cast<const char*>(letter.data()) + 2;
  RankReport report{.standing = static_cast<Standing>(letter[0])};
  (letter[1] != std::byte{0} ? report.verdict : report.text)
      .assign(text, ::strnlen(text, kLetterBytes - 2));
  return report;
}

std::string text_of(const RankView& view) {
  std::string text;
  for (int i = 0; i < kLaneCount; ++i) {
    const auto lane = static_cast<Lane>(i);
    if (lane_of(view, lane).doing == Doing::kNothing) continue;
    text += (text.empty() ? "" : "; ") + text_of(lane, lane_of(view, lane));
  }
  return text.empty() ? "its lanes have nothing to do" : text;
}

RankReport StallWatch::look(const RankView& view, double elapsed_s) {
  // A wait that ends is progress as well: what waited may not have been seen to go on yet.
  RankReport report = standing_still(view);
  const bool waits_otherwise = std::exchange(standing_, report.standing) != report.standing;
  still_s_ = waits_otherwise || moved(last_, view) ? 0 : still_s_ + elapsed_s;
  last_ = view;
  if (!view.failure.empty()) return {.standing = Standing::kStuck, .text = ": " + view.failure};
  if (still_s_ < limit_s_) return {};
  if (!report.text.empty()) report.text = fmt::format(" for {:.1f} s: {}", still_s_, report.text);
  return report;
}

RankReport StallWatch::look_away() {
  still_s_ = 0;
  return {.standing = Standing::kUnwatched};
}

RankTable::RankTable(int rank, int ranks, double limit_s)
    : rank_(rank), limit_s_(limit_s), rows_(static_cast<std::size_t>(ranks)) {}

void RankTable::heard(int rank, RankReport report) {
  rows_[static_cast<std::size_t>(rank)] = {.report = std::move(report)};
}

std::vector<int> RankTable::all_with(Standing standing) const {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    if (rows_[r].report.standing == standing) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

std::vector<int> RankTable::silent() const {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const Row& row = rows_[r];
    const bool speaks = static_cast<int>(r) == rank_ || row.report.standing == Standing::kLeft;
    if (!speaks && row.silent_s >= limit_s_) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

bool RankTable::all_know(std::optional<int> gone) const {
  const std::vector<int> quiet = silent();
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const RankReport& report = rows_[r].report;
    const auto rank = static_cast<int>(r);
    if (report.standing == Standing::kLeft || rank == gone.value_or(-1)) continue;
    if (report.verdict.empty() && std::ranges::find(quiet, rank) == quiet.end()) return false;
  }
  return true;
}

/// Ranks that wait for others are not at fault while one of those moves, nor for the limit after
/// one has left: what they waited for may have come then. If all that are left wait or have nothing
/// to do, it is the fault of those that have nothing to do, or else of all.
std::vector<int> RankTable::guilty() const {
  if (std::vector<int> stuck = all_with(Standing::kStuck); !stuck.empty()) return stuck;
  std::vector<int> waiting = all_with(Standing::kMeets);
  std::vector<int> idle = all_with(Standing::kIdle);
  const std::size_t left = all_with(Standing::kLeft).size();
  if (waiting.empty() || waiting.size() + idle.size() + left < rows_.size()) return {};
  for (const Row& row : rows_) {
    if (row.report.standing == Standing::kLeft && row.silent_s < limit_s_) return {};
  }
  return idle.empty() ? waiting : idle;
}

std::optional<std::string> RankTable::judge(double elapsed_s) {
  for (Row& row : rows_) row.silent_s += elapsed_s;
  for (const Row& row : rows_) {
    if (!row.report.verdict.empty()) return row.report.verdict;
  }
  std::string verdict;
  for (const int r : silent()) {
    verdict +=
        fmt::format("{}rank {} is silent, not heard of for {:.1f} s", verdict.empty() ? "" : "; ",
                    r, rows_[static_cast<std::size_t>(r)].silent_s);
  }
  if (!verdict.empty()) return verdict + limit_text();
  for (const int r : guilty()) {
    verdict += fmt::format("{}rank {} does not move{}", verdict.empty() ? "" : "; ", r,
                           rows_[static_cast<std::size_t>(r)].report.text);
  }
  return verdict.empty() ? std::nullopt : std::optional(verdict + limit_text());
}

std::string RankTable::limit_text() const {
  return fmt::format(" (run.watchdog_s = {:g})", limit_s_);
}

}  // namespace strata
