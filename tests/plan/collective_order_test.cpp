// What ranks submit must fit together: the same collectives in the same order, and no rank waiting
// for what another does only after the collective that it waits in. Dry runs of all ranks are
// played against each other by a small machine of this test's own.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "strata/plan/plan_choices.h"
#include "strata/plan/setup.h"
#include "strata/predict/prediction.h"
#include "support/catch.h"
#include "support/tiny_config.h"

namespace strata::test {
namespace {

constexpr int kSteps = 3;

struct RankTrace {
  GroupPlace place;
  std::vector<TraceRecord> records;  ///< in the order of submission
};

std::string text_of(const Submission& what) {
  std::size_t bytes = 0;
  for (const ByteRange& range : what.accesses.writes) bytes += range.bytes;
  return std::string(what.name) + " " + std::string(what.tag.phase) + " pass " +
         std::to_string(what.tag.pass) + " unit " + std::to_string(what.tag.unit) + ", " +
         std::to_string(bytes) + " bytes";
}

std::vector<RankTrace> traces_of(const RunConfig& config, int ranks, int replicas) {
  std::vector<RankTrace> traces;
  for (int replica = 0; replica < replicas; ++replica) {
    for (int rank = 0; rank < ranks; ++rank) {
      const GroupPlace place{rank, ranks, replica, replicas};
      const Setup setup =
          make_setup(config, choices_by_rule(config), {.place = place, .budget = {}, .device = {}});
      Recorder recorder;
      record_steps(setup, kSteps, recorder);
      traces.push_back({place, recorder.records()});
    }
  }
  return traces;
}

/// Runs the work of all ranks: a lane in its order, after what it waits for, and a collective when
/// every rank of its group has come to it.
class Machine {
 public:
  explicit Machine(const std::vector<RankTrace>& traces) : ranks_(traces.size()) {
    for (std::size_t r = 0; r < traces.size(); ++r) ranks_[r].trace = &traces[r];
  }

  /// Returns what is wrong, or nothing if all work is done at last.
  std::string run() {
    bool moved = true;
    while (moved && problem_.empty()) {
      moved = false;
      for (Rank& rank : ranks_) moved = submit(rank) || moved;
      for (Rank& rank : ranks_) moved = work(rank) || moved;
    }
    for (std::size_t r = 0; r < ranks_.size() && problem_.empty(); ++r) {
      for (const Queue& queue : ranks_[r].queues) {
        if (queue.empty()) continue;
        problem_ = "rank " + std::to_string(r) + " is stuck in " + text_of(queue.front()->what);
      }
      if (ranks_[r].submitted < ranks_[r].trace->records.size())
        problem_ += "; nothing is submitted";
    }
    return problem_;
  }

 private:
  using Queue = std::vector<const TraceRecord*>;
  struct Rank {
    const RankTrace* trace = nullptr;
    std::size_t submitted = 0;
    std::array<Queue, kLaneCount> queues;  ///< first in, first out
    std::array<std::uint64_t, kLaneCount> done{};
  };

  static bool is_done(const Rank& rank, const Event& event) {
    return rank.done[static_cast<std::size_t>(event.lane)] >= event.ticket;
  }

  /// Submits until the submitting thread has to wait.
  static bool submit(Rank& rank) {
    bool moved = false;
    for (; rank.submitted < rank.trace->records.size(); ++rank.submitted, moved = true) {
      const TraceRecord& next = rank.trace->records[rank.submitted];
      const auto done = [&](const Event& event) { return is_done(rank, event); };
      if (!std::ranges::all_of(next.joined, done)) break;
      if (!next.by_submitter) rank.queues[static_cast<std::size_t>(next.lane)].push_back(&next);
    }
    return moved;
  }

  static const TraceRecord* ready(const Rank& rank, std::size_t lane) {
    if (rank.queues[lane].empty()) return nullptr;
    const TraceRecord* head = rank.queues[lane].front();
    const auto done = [&](const Wait& wait) { return is_done(rank, wait.event); };
    return std::ranges::all_of(head->waits, done) ? head : nullptr;
  }

  static void finish(Rank& rank, std::size_t lane) {
    rank.done[lane] = rank.queues[lane].front()->ticket;
    rank.queues[lane].erase(rank.queues[lane].begin());
  }

  bool work(Rank& rank) {
    bool moved = false;
    for (std::size_t lane = 0; lane < kLaneCount; ++lane) {
      const TraceRecord* head = ready(rank, lane);
      if (head == nullptr) continue;
      if (head->what.kind == SubmissionKind::kCollective && !all_come(rank, *head, lane)) continue;
      if (!problem_.empty()) return false;
      if (head->what.kind != SubmissionKind::kCollective) finish(rank, lane);
      moved = true;
    }
    return moved;
  }

  /// Ends a collective on all ranks of its group, if each has come to one.
  bool all_come(const Rank& rank, const TraceRecord& head, std::size_t lane) {
    const auto among_replicas = [](const TraceRecord& r) { return r.what.name == "all_reduce"; };
    const bool of_replicas = among_replicas(head);
    const GroupPlace& place = rank.trace->place;
    std::vector<Rank*> group;
    for (Rank& other : ranks_) {
      const GroupPlace& its = other.trace->place;
      if (of_replicas ? its.rank != place.rank : its.replica != place.replica) continue;
      const TraceRecord* theirs = ready(other, lane);
      if (theirs == nullptr || theirs->what.kind != SubmissionKind::kCollective) return false;
      if (among_replicas(*theirs) != of_replicas) return false;  // in another group first
      if (text_of(theirs->what) != text_of(head.what)) {
        problem_ = text_of(head.what) + " meets " + text_of(theirs->what);
      }
      group.push_back(&other);
    }
    if (problem_.empty()) {
      for (Rank* other : group) finish(*other, lane);
    }
    return true;
  }

  std::vector<Rank> ranks_;
  std::string problem_;
};

std::vector<std::string> comm_lane(const RankTrace& trace) {
  std::vector<std::string> lines;
  for (const TraceRecord& record : trace.records) {
    if (!record.by_submitter && record.lane == Lane::kComm) lines.push_back(text_of(record.what));
  }
  return lines;
}

std::vector<RunConfig> configs() {
  std::vector<RunConfig> all;
  for (const UpdateTiming timing :
       {UpdateTiming::kBeforeUse, UpdateTiming::kOnArrival, UpdateTiming::kSpeculative}) {
    for (const std::int64_t passes : {1, 3}) {
      RunConfig config = tiny_config();
      config.schedule.passes = passes;
      config.optimizer.timing = timing;
      if (timing == UpdateTiming::kOnArrival) config.optimizer.grad_clip.reset();
      all.push_back(config);
      config.optimizer.interleave = 0.5;
      config.model.llama.tie_word_embeddings = true;
      config.schedule.gradient_sums = GradientSums::kDevice;
      all.push_back(config);
      config.optimizer.interleave = 0;
      config.schedule.resident_units = 3;
      all.push_back(config);
    }
  }
  RunConfig muon = tiny_config();
  muon.optimizer.kind = OptimizerKind::kMuon;
  all.push_back(muon);
  return all;
}

}  // namespace

TEST_CASE("all ranks submit the same collectives, and no ranks wait for each other for ever",
          "[long]") {
  for (const RunConfig& config : configs()) {
    for (const auto& [ranks, replicas] :
         {std::pair(2, 1), std::pair(3, 1), std::pair(1, 2), std::pair(2, 2)}) {
      const std::vector<RankTrace> traces = traces_of(config, ranks, replicas);
      const std::vector<std::string> first = comm_lane(traces[0]);
      CHECK(first.size() >= 10);
      for (const RankTrace& trace : traces) CHECK(comm_lane(trace) == first);
      CHECK(Machine(traces).run() == "");
    }
  }
}

TEST_CASE("collectives that one rank submits in another order are found") {
  std::vector<RankTrace> traces = traces_of(tiny_config(), 3, 1);
  const std::vector<std::string> right = comm_lane(traces[0]);
  std::vector<std::size_t> comm;
  std::vector<TraceRecord>& records = traces[2].records;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (!records[i].by_submitter && records[i].lane == Lane::kComm) comm.push_back(i);
  }
  std::size_t found = 0;
  std::size_t swaps = 0;
  for (std::size_t i = 0; i + 1 < comm.size(); ++i) {
    TraceRecord& one = records[comm[i]];
    TraceRecord& next = records[comm[i + 1]];
    if (text_of(one.what) == text_of(next.what)) continue;
    std::swap(one.what, next.what);
    ++swaps;
    CHECK(comm_lane(traces[2]) != right);
    found += Machine(traces).run().empty() ? 0 : 1;
    std::swap(one.what, next.what);
  }
  CHECK(swaps > 10);
  CHECK(found == swaps);
}

TEST_CASE("a rank that waits for its own collective's successor is found") {
  std::vector<RankTrace> traces = traces_of(tiny_config(), 2, 1);
  // The first collective of rank 1 comes after the compute work behind it.
  std::vector<TraceRecord>& records = traces[1].records;
  const auto comm = std::ranges::find_if(
      records, [](const TraceRecord& r) { return !r.by_submitter && r.lane == Lane::kComm; });
  const auto behind = std::find_if(comm, records.end(), [](const TraceRecord& r) {
    return r.lane == Lane::kCompute &&
           std::ranges::any_of(r.waits, [](const Wait& w) { return w.event.lane == Lane::kComm; });
  });
  REQUIRE(behind != records.end());
  comm->waits.push_back({.event = {Lane::kCompute, behind->ticket}});
  CHECK_THAT(Machine(traces).run(), ContainsSubstring("is stuck in"));
}

}  // namespace strata::test
