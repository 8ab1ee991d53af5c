// What the files of the Recorder share: its members, vector clocks and text for tags and events.
// Recording is in trace.cpp, races, exposure and the Chrome format in files of their own. The
// submitting thread writes everything but the measured runs, which any thread may report under
// their mutex.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "strata/device/trace.h"

namespace strata {

/// A vector clock: per lane the newest ticket that has finished.
using Clock = std::array<std::uint64_t, kLaneCount>;

constexpr std::size_t index_of(Lane lane) { return static_cast<std::size_t>(lane); }

/// When a submission of a lane ran.
struct TraceRun {
  std::uint64_t ticket = 0;
  double begin_us = 0;
  double end_us = 0;
};

/// The members of a Recorder. The submitting thread writes everything but `runs`.
struct Recorder::Impl {
  struct NamedArena {
    std::string name;
    ByteRange range;
  };
  using Run = TraceRun;
  struct Position {
    std::uint64_t ticket = 0;
    std::size_t record = 0;
  };

  std::atomic<bool> active{false};
  std::vector<TraceRecord> records;
  std::map<const std::byte*, NamedArena> arenas;  ///< by first byte; they do not overlap

  std::vector<Clock> before;  ///< per record: what had finished before it
  std::array<std::vector<Position>, kLaneCount> on_lane;  ///< per lane, tickets ascending
  Clock submitter{};                                      ///< what the submitting thread waited for

  mutable std::mutex runs_mutex;
  std::array<std::vector<Run>, kLaneCount> runs;

  void submitted(TraceRecord record);
  /// Returns everything that has finished once `event` has.
  [[nodiscard]] Clock passed(Event event) const;
  /// Returns whether record `a` has finished before record `b` begins; a < b.
  [[nodiscard]] bool ordered(std::size_t a, std::size_t b) const;
  /// Returns the index of the record of a submission that was recorded.
  [[nodiscard]] std::size_t record_at(Event event) const;
  /// Returns the measured runs of recorded submissions on this lane, tickets ascending.
  [[nodiscard]] std::vector<Run> recorded_runs(Lane lane) const;
  /// Returns "arena+offset:bytes"; memory outside of all arenas is "pageable:bytes".
  [[nodiscard]] std::string place(ByteRange range) const;
};

/// Returns " backward unit=3 cell=1": only what is set, with a leading blank each.
[[nodiscard]] std::string text_of(const Tag& tag);
/// Returns "lane@ticket".
[[nodiscard]] std::string text_of(const Event& event);

}  // namespace strata
