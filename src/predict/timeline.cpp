// Simulates the lanes of a device by events. Between two of them every running piece of work has
// one speed, which depends on what else runs. Kernels take the device in turns, copies in take the
// link in turns, and collectives follow each other on their lane; everything else runs side by
// side.

#include "strata/predict/timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <stdexcept>

namespace strata {

namespace {

/// How many pieces of work of each share are running.
using Running = std::array<int, kShareCount>;

/// Returns the share of its full speed that work has beside what is running. `collective` is
/// what one that runs takes.
double speed(Share share, const Running& running, const CollectiveShares& collective,
             const Rates& r) {
  const auto count = [&](Share s) { return running[static_cast<std::size_t>(s)]; };
  const auto lost = [](double remaining, double part) { return 1 - (1 - remaining) * part; };
  const double ways =
      0.5 * ((count(Share::kLinkIn) > 0 ? 1 : 0) + (count(Share::kLinkOut) > 0 ? 1 : 0));
  const auto under_host = [&](double under_updates, double under_attention) {
    if (count(Share::kHost) > 0) return under_updates;
    return count(Share::kHostAttention) > 0 ? under_attention : 1;
  };
  // Copies and a collective that want more than the link share it evenly, each by what it wants.
  const double link_left = 1 / (1 + collective.link_use);
  switch (share) {
    case Share::kDevice: return lost(r.device_under_copies, ways) * collective.kernels;
    case Share::kHost:
    case Share::kHostAttention: return lost(r.host_under_copies, ways);
    case Share::kLinkIn:
      return (count(Share::kLinkOut) > 0 ? r.link_both_ways : 1) *
             under_host(r.link_in_under_host, r.link_in_under_attention) * link_left;
    case Share::kLinkOut:
      return (count(Share::kLinkIn) > 0 ? r.link_both_ways : 1) *
             under_host(r.link_out_under_host, 1) * link_left;
    case Share::kCollective:
      return (count(Share::kDevice) > 0 ? collective.own : 1) * (ways > 0 ? link_left : 1);
    case Share::kNone: break;
  }
  return 1;
}

/// Moves from one end of work to the next. The submitting thread is one more lane, whose work is to
/// submit.
class Simulation {
 public:
  Simulation(const PaperTrace& records, std::vector<PredictedRun>& runs)
      : records_(records), rates_(records.rates()), runs_(runs) {
    for (std::size_t i = 0; i < records.size(); ++i) {
      const PaperWork& record = records[i];
      if (record.by_submitter) continue;
      LaneState& lane = lanes_[static_cast<std::size_t>(record.lane)];
      if (lane.order.empty()) lane.first_ticket = record.ticket;
      if (record.ticket != lane.first_ticket + lane.order.size()) {
        throw std::invalid_argument("a timeline needs every submission of a lane");
      }
      lane.order.push_back(i);
    }
    runs_.resize(2 * records.size());
  }

  /// Fills in all runs and returns when everything has ended.
  double run() {
    while (true) {
      // Whoever had the link in last comes first, and whoever had the device last comes last.
      start(link_in_.lane, Share::kLinkIn);
      const std::size_t last = device_.lane;
      for (std::size_t i = 1; i <= kLanes; ++i) start((last + i) % kLanes);
      const double step_s = time_to_next_end();
      if (step_s < 0) break;
      advance(step_s);
    }
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      if (has_next(lane)) throw std::invalid_argument("a wait for what never ends");
    }
    return now_s_;
  }

 private:
  static constexpr std::size_t kLanes = kLaneCount + 1;
  static constexpr std::size_t kSubmitter = kLaneCount;

  struct LaneState {
    std::vector<std::size_t> order;  ///< records, in ticket order
    std::uint64_t first_ticket = 1;
    std::size_t done = 0;  ///< how many of them have ended
    bool busy = false;
    Share share = Share::kNone;
    double speed = 1;        ///< of the work under way until the next work ends
    double remaining_s = 0;  ///< of the work under way, at full speed
    double yields_at_s = 0;  ///< what remains of it when another lane takes its turn
    bool paused = false;     ///< another lane has its turn
  };

  /// Hardware that does one piece of work at a time, for several lanes.
  struct Engine {
    std::size_t run = PredictedRun::kNone;  ///< the run that began last
    std::size_t lane = kSubmitter;          ///< its lane
  };

  /// Returns the engine of a share, or null if work of that share runs side by side.
  [[nodiscard]] Engine* engine_of(Share share) {
    if (share == Share::kDevice) return &device_;
    return share == Share::kLinkIn ? &link_in_ : nullptr;
  }

  [[nodiscard]] std::size_t next_run(std::size_t lane) const {
    if (lane == kSubmitter) return records_.size() + submitted_;
    return lanes_[lane].order[lanes_[lane].done];
  }

  [[nodiscard]] bool has_next(std::size_t lane) const {
    if (lane == kSubmitter) return submitted_ < records_.size();
    return lanes_[lane].done < lanes_[lane].order.size();
  }

  /// Returns the run that ends with the event, or kNone if that was over before the first record.
  [[nodiscard]] std::size_t run_of(const Event& event) const {
    const LaneState& lane = lanes_[static_cast<std::size_t>(event.lane)];
    if (lane.order.empty() || event.ticket < lane.first_ticket) return PredictedRun::kNone;
    return lane.order.at(event.ticket - lane.first_ticket);
  }

  [[nodiscard]] bool passed(const Event& event) const {
    const LaneState& lane = lanes_[static_cast<std::size_t>(event.lane)];
    return lane.order.empty() || event.ticket < lane.first_ticket + lane.done;
  }

  /// Starts the lane's next work, if it may begin and is of the share `only`, where one is given.
  void start(std::size_t lane, std::optional<Share> only = {}) {
    if (lanes_[lane].busy || !has_next(lane)) return;
    if (lanes_[lane].paused) return only ? void() : resume(lane);
    const std::size_t run = next_run(lane);
    const bool submits = lane == kSubmitter;
    const std::size_t record = submits ? submitted_ : run;
    if (!submits && record >= submitted_) return;
    const PaperWork& r = records_[record];
    PredictedRun& result = runs_[run];
    double released_s = -1;
    const auto released_by = [&](std::size_t cause) {
      if (cause == PredictedRun::kNone || runs_[cause].end_s < released_s) return;
      released_s = runs_[cause].end_s;
      result.cause = cause;
    };
    if (submits) {
      for (const Event& event : records_.joined(r)) {
        if (!passed(event)) return;
        released_by(run_of(event));
      }
      if (submitted_ > 0) released_by(run - 1);
    } else {
      for (const Event& event : records_.waits(r)) {
        if (!passed(event)) return;
        released_by(run_of(event));
      }
      released_by(records_.size() + record);
      LaneState& own = lanes_[lane];
      if (own.done > 0) released_by(own.order[own.done - 1]);
    }
    const Share share = submits ? Share::kNone : r.share;
    if (only && share != *only) return;
    result.begin_s = std::max(released_s, 0.0);
    if (Engine* const engine = engine_of(share)) {
      if (running_[static_cast<std::size_t>(share)] > 0) {
        return share == Share::kDevice ? ask_for_a_turn(lane) : void();
      }
      if (released_s < now_s_) released_by(engine->run);
      *engine = {run, lane};
      if (share == Share::kLinkIn) result.begin_s = std::max(released_s, 0.0);
    }
    LaneState& own = lanes_[lane];
    own.busy = true;
    own.share = share;
    own.remaining_s = submits ? r.submit_s : r.alone_s;
    own.yields_at_s = 0;
    ++running_[static_cast<std::size_t>(share)];
  }

  /// Has the lane whose kernels have the device stop for another one between two of them, or as the
  /// last part of one begins.
  void ask_for_a_turn(std::size_t lane) {
    LaneState& holder = lanes_[device_.lane];
    const PaperWork& work = records_[device_.run];
    if (device_.lane == lane || holder.yields_at_s > 0) return;
    const double piece_s = work.alone_s / work.pieces;
    constexpr double kWhole = 1e-6;  // sums of steps are not exact
    if (piece_s <= 0) return;
    const double behind_s =
        std::max(0.0, std::ceil(holder.remaining_s / piece_s - kWhole) - 1) * piece_s;
    holder.yields_at_s = std::min(holder.remaining_s, behind_s + work.tail_s);
  }

  /// Goes on with kernels that stopped for another lane, when that has had its turn.
  void resume(std::size_t lane_index) {
    if (running_[static_cast<std::size_t>(Share::kDevice)] > 0) return;
    LaneState& lane = lanes_[lane_index];
    device_ = {next_run(lane_index), lane_index};
    lane.busy = true;
    lane.paused = false;
    lane.yields_at_s = 0;
    ++running_[static_cast<std::size_t>(Share::kDevice)];
  }

  /// Returns what the collective that runs takes: there is one at most, since one lane has them
  /// all.
  [[nodiscard]] CollectiveShares running_collective() const {
    constexpr auto kComm = static_cast<std::size_t>(Lane::kComm);
    return lanes_[kComm].busy ? records_[next_run(kComm)].beside : CollectiveShares{};
  }

  /// Finds the speeds of all that runs. Returns the time until the next work ends, or a negative
  /// number if nothing runs.
  [[nodiscard]] double time_to_next_end() {
    double least = -1;
    const CollectiveShares collective = running_collective();
    for (LaneState& lane : lanes_) {
      if (!lane.busy) continue;
      lane.speed = speed(lane.share, running_, collective, rates_);
      const double needed = (lane.remaining_s - lane.yields_at_s) / lane.speed;
      if (least < 0 || needed < least) least = needed;
    }
    return least;
  }

  /// Lets time pass and ends the work whose time has come.
  void advance(double step_s) {
    // What ends within a picosecond ends now: sums of steps are not exact.
    constexpr double kNow = 1e-12;
    now_s_ += step_s;
    for (std::size_t i = 0; i < kLanes; ++i) {
      LaneState& lane = lanes_[i];
      if (!lane.busy) continue;
      lane.remaining_s -= step_s * lane.speed;
      if (lane.remaining_s > lane.yields_at_s + kNow) continue;
      if (lane.remaining_s > kNow) {
        lane.paused = true;
        lane.busy = false;
        --running_[static_cast<std::size_t>(lane.share)];
        continue;
      }
      runs_[next_run(i)].end_s = now_s_;
      lane.busy = false;
      --running_[static_cast<std::size_t>(lane.share)];
      if (i != kSubmitter) {
        ++lane.done;
        continue;
      }
      if (records_[submitted_].by_submitter) {
        runs_[submitted_] = {now_s_, now_s_, records_.size() + submitted_};
      }
      ++submitted_;
    }
  }

  const PaperTrace& records_;
  const Rates& rates_;
  std::vector<PredictedRun>& runs_;
  std::array<LaneState, kLanes> lanes_;
  Running running_{};
  std::size_t submitted_ = 0;
  Engine device_;
  Engine link_in_;
  double now_s_ = 0;
};

}  // namespace

Timeline::Timeline(const PaperTrace& records) : records_(records) {
  end_s_ = Simulation(records, runs_).run();
}

Timeline::CriticalPath Timeline::critical_path(std::size_t last, double from_s) const {
  CriticalPath path{.lanes_s = std::vector<double>(kLaneCount, 0.0)};
  for (std::size_t at = last; at != PredictedRun::kNone && runs_[at].end_s > from_s;
       at = runs_[at].cause) {
    const PredictedRun& run = runs_[at];
    const double before_s = run.cause == PredictedRun::kNone ? 0 : runs_[run.cause].end_s;
    const double spent_s = run.end_s - std::max(before_s, from_s);
    if (at >= records_.size() || records_[at].by_submitter) {
      path.submit_s += spent_s;
    } else {
      path.lanes_s[static_cast<std::size_t>(records_[at].lane)] += spent_s;
    }
  }
  return path;
}

}  // namespace strata
