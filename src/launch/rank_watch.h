// What the watchdog concludes, without threads, clocks or messages: how one rank is, by what its
// lanes are at and for how long they have been at it; and whose fault it is, by what all ranks have
// said of themselves. Time is an argument, so that tests need not wait.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/comm/postbox.h"
#include "strata/comm/ranks.h"
#include "strata/device/lane_state.h"

namespace strata {

/// How a rank is.
enum class Standing : std::uint8_t {
  kMoves,      ///< a lane has moved of late
  kUnwatched,  ///< it does what may take long, or waits for a checkpoint to be written
  kIdle,       ///< its lanes have had nothing to do for the limit
  kMeets,      ///< it has waited for other ranks for the limit
  kStuck,      ///< its own work has not moved for the limit, or has failed
  kLeft,       ///< it says no more
};

/// What a rank says of itself. One with a verdict says that the job ends, and why.
struct RankReport {
  Standing standing = Standing::kMoves;
  std::string text{};     ///< if it does not move: " for 300.0 s: ", and what it is at
  std::string verdict{};  ///< of the job; empty: none yet
};

/// Returns the report as a letter; a text that is too long is cut.
[[nodiscard]] LetterBytes to_letter(const RankReport& report);
[[nodiscard]] RankReport from_letter(const LetterBytes& letter);

/// All that is looked at in one rank, at one time.
struct RankView {
  std::array<LaneState, kLaneCount> lanes{};
  std::array<bool, kChannelCount> meets{};  ///< a thread of this channel may wait for other ranks
  std::string failure{};                    ///< of collectives; empty: none
};

/// Returns a text of all lanes that have work.
[[nodiscard]] std::string text_of(const RankView& view);

/// Watches one rank.
class StallWatch {
 public:
  explicit StallWatch(double limit_s) : limit_s_(limit_s) {}
  /// Returns how the rank is that looks like this `elapsed_s` seconds after the last time.
  [[nodiscard]] RankReport look(const RankView& view, double elapsed_s);
  /// Returns how a rank is that is not watched now. The time begins again.
  [[nodiscard]] RankReport look_away();

 private:
  double limit_s_;
  double still_s_ = 0;
  RankView last_;
  Standing standing_ = Standing::kMoves;  ///< how it would be if it looked like last_ for long
};

/// Keeps what ranks have said, this one included.
class RankTable {
 public:
  RankTable(int rank, int ranks, double limit_s);
  /// Takes the newest report of a rank.
  void heard(int rank, RankReport report);
  /// Lets time pass. Returns the verdict on the job, if there is one: whose fault it is that it
  /// does not go on.
  [[nodiscard]] std::optional<std::string> judge(double elapsed_s);
  /// Returns whether every rank has said last that it has a verdict, but for those that are silent
  /// or have left, and the one that is gone.
  [[nodiscard]] bool all_know(std::optional<int> gone) const;

 private:
  struct Row {
    RankReport report{};
    double silent_s = 0;
  };
  /// Returns " (run.watchdog_s = 300)": what ends a job whose ranks are there and do nothing.
  [[nodiscard]] std::string limit_text() const;
  [[nodiscard]] std::vector<int> guilty() const;
  [[nodiscard]] std::vector<int> all_with(Standing standing) const;
  [[nodiscard]] std::vector<int> silent() const;

  int rank_;
  double limit_s_;
  std::vector<Row> rows_;  ///< by rank
};

}  // namespace strata
