// The record of what was submitted: bytes, waits, costs and, if measured, times. Lanes report to a
// TraceSink; the Recorder keeps a window of steps and finds races, exposed time and the canonical
// text by which backends are compared. Nothing is built or timed while no sink is active.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/tensor.h"
#include "strata/device/cost.h"
#include "strata/device/lane.h"
#include "strata/device/space.h"

namespace strata {

/// The bytes that a submission reads and writes. Ranges of absent views are dropped.
struct Accesses {
  std::vector<ByteRange> reads;
  std::vector<ByteRange> writes;

  Accesses() = default;
  Accesses(std::initializer_list<ByteRange> reads_in, std::initializer_list<ByteRange> writes_in);
};

enum class SubmissionKind : std::uint8_t { kKernel, kCopy, kSet, kHostTask, kCollective };

/// What a submission is called: all that is said of it while nobody records.
struct SubmissionLabel {
  std::string_view name;  ///< a literal
  SubmissionKind kind = SubmissionKind::kKernel;
  Tag tag{};
};

/// What a submission touches and costs. Only traces want to know, so it is made only for them.
struct Footprint {
  Accesses accesses{};
  Cost cost{};
};

/// One piece of work on one lane, as traces describe it.
struct Submission {
  std::string_view name;  ///< a literal
  SubmissionKind kind = SubmissionKind::kKernel;
  Accesses accesses{};
  Tag tag{};
  Cost cost{};
};
/// Returns the bytes that a submission moves; none for work of rare steps.
[[nodiscard]] std::size_t moved_bytes(const Submission& what);

struct Wait {
  Event event;
  WaitFor why = WaitFor::kFilled;
};

/// One submission as the recorder keeps it. The list of these is a pure function of the resolved
/// config and the step number, the same on every backend but for addresses.
struct TraceRecord {
  Lane lane = Lane::kCompute;
  std::uint64_t ticket = 0;
  Submission what{};
  std::vector<Wait> waits{};  ///< what this submission comes after
  std::vector<Event>
      joined{};               ///< events the submitting thread had waited for since its last record
  bool by_submitter = false;  ///< access by the submitting thread itself; lane and ticket unused
};

/// Receives everything that is submitted. Called by the submitting thread; `ran` by any thread.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  virtual void submitted(TraceRecord record) = 0;
  virtual void ran(Lane lane, std::uint64_t ticket, double begin_us, double end_us) = 0;
  virtual void arena(std::string_view name, Space space, ByteRange range) = 0;
  /// False while nothing should be recorded; backends then skip building records and timing.
  [[nodiscard]] virtual bool active() const = 0;
};

/// Two submissions that touch the same bytes, one writing, with no order between them.
struct Race {
  std::size_t first = 0;   ///< index into records()
  std::size_t second = 0;  ///< index into records()
  ByteRange bytes;
  std::string text;  ///< both submissions, lanes, tags and the bytes by arena and offset
};

/// Keeps the trace of a window of steps in memory and answers questions about it.
class Recorder final : public TraceSink {
 public:
  Recorder();
  ~Recorder() override;

  void start();  ///< begins to record
  void stop();
  void clear();  ///< gives back what the records took
  /// Makes room for so many records, so that recording them moves none. More find room as well.
  void reserve(std::size_t records);
  void submitted(TraceRecord record) override;
  void ran(Lane lane, std::uint64_t ticket, double begin_us, double end_us) override;
  void arena(std::string_view name, Space space, ByteRange range) override;
  [[nodiscard]] bool active() const override;

  [[nodiscard]] const std::vector<TraceRecord>& records() const;
  /// Happens-before check with vector clocks over lanes and the submitting thread. Work submitted
  /// before start() counts as finished. At most `limit` races are returned.
  [[nodiscard]] std::vector<Race> races(std::size_t limit = 16) const;
  /// Returns whether neither record must wait for the other: they may run at the same time.
  [[nodiscard]] bool may_overlap(std::size_t a, std::size_t b) const;
  /// Returns the indices of records with this name whose tag matches every field of `tag` that is
  /// not -1 or "".
  [[nodiscard]] std::vector<std::size_t> find(std::string_view name, const Tag& tag = {}) const;
  /// Returns the measured seconds of each record, from `ran`; 0 if that did not come.
  [[nodiscard]] std::vector<double> durations_s() const;
  /// Measured seconds from `ran`, per lane: busy, and the span from first begin to last end.
  struct LaneTime {
    double busy_s = 0;
    double span_s = 0;
  };
  [[nodiscard]] LaneTime lane_time(Lane lane) const;
  /// Returns the "exposed" time in seconds: gaps of the compute lane by the lane whose event the
  /// next submission waited for.
  [[nodiscard]] std::vector<double> exposed_s() const;
  /// Work of one name, on whatever lanes, from the begin of the first to the end of the last
  /// submission of the compute lane, seconds.
  struct WorkTime {
    double busy_s = 0;  ///< it ran
    /// It ran and compute stood still because of it: each gap of the compute lane is followed back
    /// from its end to the submission that let compute go on last, from the begin of that one to
    /// what it came after last, on its own lane or another, and so on to the gap's begin.
    double exposed_s = 0;
    /// Share of the work that was hidden under compute, in [0, 1]; 1 if there was none. The two
    /// sums are rounded on their own: what was exposed whole may come out a little longer than
    /// busy.
    [[nodiscard]] double hidden() const {
      return busy_s > 0 ? std::max(0.0, 1 - exposed_s / busy_s) : 1;
    }
  };
  [[nodiscard]] WorkTime work_time(std::string_view name) const;
  /// Returns one line per record, without addresses, for comparing backends: arena names and
  /// offsets, tickets counted from start().
  [[nodiscard]] std::string canonical() const;
  /// Writes the Chrome trace event format (chrome://tracing, Perfetto); lanes are threads. `file`
  /// is replaced. Throws IoError if it cannot be written.
  void write_chrome_trace(const std::string& file) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata
