// Records submissions with vector clocks and answers questions about them: order, durations,
// exposed time, and the canonical text by which tests compare backends. Clocks are computed as
// records arrive, so order is a look-up afterwards.

#include "strata/device/trace.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <sstream>
#include <utility>

#include "device/trace_impl.h"

namespace strata {

namespace {

void merge(Clock& into, const Clock& from) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

std::vector<ByteRange> present(std::initializer_list<ByteRange> ranges) {
  std::vector<ByteRange> kept;
  std::ranges::copy_if(ranges, std::back_inserter(kept),
                       [](const ByteRange& r) { return r.begin != nullptr && r.bytes > 0; });
  return kept;
}

bool matches(const Tag& tag, const Tag& wanted) {
  const auto fits = [](int value, int want) { return want == -1 || value == want; };
  return (wanted.phase.empty() || tag.phase == wanted.phase) && fits(tag.pass, wanted.pass) &&
         fits(tag.unit, wanted.unit) && fits(tag.cell, wanted.cell);
}

}  // namespace

Accesses::Accesses(std::initializer_list<ByteRange> reads_in,
                   std::initializer_list<ByteRange> writes_in)
    : reads(present(reads_in)), writes(present(writes_in)) {}

std::size_t moved_bytes(const Submission& what) {
  if (what.cost.kind == CostKind::kRare) return 0;
  if (what.cost.bytes > 0) return what.cost.bytes;
  std::size_t bytes = 0;
  for (const ByteRange& range : what.accesses.reads) bytes += range.bytes;
  for (const ByteRange& range : what.accesses.writes) bytes += range.bytes;
  return bytes;
}

std::string text_of(const Tag& tag) {
  std::string text;
  if (!tag.phase.empty()) text.append(" ").append(tag.phase);
  if (tag.pass >= 0) text += " pass=" + std::to_string(tag.pass);
  if (tag.unit >= 0) text += " unit=" + std::to_string(tag.unit);
  if (tag.cell >= 0) text += " cell=" + std::to_string(tag.cell);
  return text;
}

std::string text_of(const Event& event) {
  return std::string(name_of(event.lane)) + "@" + std::to_string(event.ticket);
}

void Recorder::Impl::submitted(TraceRecord record) {
  for (const Event& event : record.joined) merge(submitter, passed(event));
  Clock clock = submitter;
  if (!record.by_submitter) {
    auto& lane = on_lane[index_of(record.lane)];
    if (!lane.empty()) merge(clock, passed({record.lane, lane.back().ticket}));
    for (const Wait& wait : record.waits) merge(clock, passed(wait.event));
    lane.push_back({record.ticket, records.size()});
  }
  before.push_back(clock);
  records.push_back(std::move(record));
}

Clock Recorder::Impl::passed(Event event) const {
  const auto& lane = on_lane[index_of(event.lane)];
  const auto behind = std::ranges::upper_bound(lane, event.ticket, {}, &Position::ticket);
  if (behind == lane.begin()) return {};  // submitted before the recording began
  const Position& last = *std::prev(behind);
  Clock clock = before[last.record];
  clock[index_of(event.lane)] = last.ticket;
  return clock;
}

bool Recorder::Impl::ordered(std::size_t a, std::size_t b) const {
  const TraceRecord& first = records[a];
  return first.by_submitter || before[b][index_of(first.lane)] >= first.ticket;
}

std::size_t Recorder::Impl::record_at(Event event) const {
  return std::ranges::lower_bound(on_lane[index_of(event.lane)], event.ticket, {},
                                  &Position::ticket)
      ->record;
}

std::vector<Recorder::Impl::Run> Recorder::Impl::recorded_runs(Lane lane) const {
  std::vector<Run> kept;
  {
    const std::lock_guard lock(runs_mutex);
    std::ranges::copy_if(runs[index_of(lane)], std::back_inserter(kept), [&](const Run& run) {
      return std::ranges::binary_search(on_lane[index_of(lane)], run.ticket, {}, &Position::ticket);
    });
  }
  std::ranges::sort(kept, {}, &Run::ticket);
  return kept;
}

std::string Recorder::Impl::place(ByteRange range) const {
  const auto behind = arenas.upper_bound(range.begin);
  if (behind != arenas.begin()) {
    const NamedArena& arena = std::prev(behind)->second;
    const auto offset = static_cast<std::size_t>(range.begin - arena.range.begin);
    if (offset < arena.range.bytes) {
      return arena.name + "+" + std::to_string(offset) + ":" + std::to_string(range.bytes);
    }
  }
  return "pageable:" + std::to_string(range.bytes);
}

Recorder::Recorder() : impl_(std::make_unique<Impl>()) {}
Recorder::~Recorder() = default;

void Recorder::start() { impl_->active = true; }
void Recorder::stop() { impl_->active = false; }

void Recorder::clear() {
  impl_->records = std::vector<TraceRecord>();
  impl_->before = std::vector<Clock>();
  impl_->on_lane = {};
  impl_->submitter = {};
  const std::lock_guard lock(impl_->runs_mutex);
  impl_->runs = {};
}

void Recorder::reserve(std::size_t records) {
  impl_->records.reserve(records);
  impl_->before.reserve(records);
}

void Recorder::submitted(TraceRecord record) {
  if (impl_->active) impl_->submitted(std::move(record));
}

void Recorder::ran(Lane lane, std::uint64_t ticket, double begin_us, double end_us) {
  const std::lock_guard lock(impl_->runs_mutex);
  impl_->runs[index_of(lane)].push_back({ticket, begin_us, end_us});
}

void Recorder::arena(std::string_view name, Space, ByteRange range) {
  // Arenas that were here before and are gone do not say so: the new owner replaces them.
  std::erase_if(impl_->arenas, [&](const auto& entry) {
    const ByteRange& old = entry.second.range;
    return std::less<>{}(old.begin, range.begin + range.bytes) &&
           std::less<>{}(range.begin, old.begin + old.bytes);
  });
  impl_->arenas[range.begin] = {std::string(name), range};
}

bool Recorder::active() const { return impl_->active; }

const std::vector<TraceRecord>& Recorder::records() const { return impl_->records; }

bool Recorder::may_overlap(std::size_t a, std::size_t b) const {
  const auto [first, second] = std::minmax(a, b);
  return first != second && !impl_->ordered(first, second);
}

std::vector<std::size_t> Recorder::find(std::string_view name, const Tag& tag) const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < impl_->records.size(); ++i) {
    const Submission& what = impl_->records[i].what;
    if (what.name == name && matches(what.tag, tag)) found.push_back(i);
  }
  return found;
}

std::vector<double> Recorder::durations_s() const {
  std::vector<double> durations(impl_->records.size());
  for (int i = 0; i < kLaneCount; ++i) {
    const auto lane = static_cast<Lane>(i);
    for (const auto& run : impl_->recorded_runs(lane)) {
      durations[impl_->record_at({lane, run.ticket})] = (run.end_us - run.begin_us) * 1e-6;
    }
  }
  return durations;
}

Recorder::LaneTime Recorder::lane_time(Lane lane) const {
  LaneTime time;
  const auto runs = impl_->recorded_runs(lane);
  for (const auto& run : runs) time.busy_s += (run.end_us - run.begin_us) * 1e-6;
  if (!runs.empty()) time.span_s = (runs.back().end_us - runs.front().begin_us) * 1e-6;
  return time;
}

std::vector<double> Recorder::exposed_s() const {
  std::array<std::vector<Impl::Run>, kLaneCount> runs;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i] = impl_->recorded_runs(static_cast<Lane>(i));
  }
  const auto& compute = runs[index_of(Lane::kCompute)];
  const auto& records = impl_->on_lane[index_of(Lane::kCompute)];
  std::vector<double> exposed(kLaneCount, 0.0);
  for (std::size_t i = 1; i < compute.size(); ++i) {
    const double gap_begin_us = compute[i - 1].end_us;
    const double gap_us = compute[i].begin_us - gap_begin_us;
    if (gap_us <= 0) continue;
    // The lane that let compute go last is the one it waited for, if that was still busy in the
    // gap; otherwise the gap is the compute lane's own: launching.
    Lane blamed = Lane::kCompute;
    double last_end_us = gap_begin_us;
    const auto at =
        std::ranges::lower_bound(records, compute[i].ticket, {}, &Impl::Position::ticket);
    for (const Wait& wait : impl_->records[at->record].waits) {
      const auto& lane = runs[index_of(wait.event.lane)];
      const auto behind = std::ranges::upper_bound(lane, wait.event.ticket, {}, &Impl::Run::ticket);
      if (behind == lane.begin() || std::prev(behind)->end_us <= last_end_us) continue;
      last_end_us = std::prev(behind)->end_us;
      blamed = wait.event.lane;
    }
    exposed[index_of(blamed)] += gap_us * 1e-6;
  }
  return exposed;
}

std::string Recorder::canonical() const {
  std::ostringstream text;
  // Tickets of earlier work, such as a start that one backend needs and another does not, are left
  // out of the count: those events become 0.
  const auto text_of_event = [&](Event event) {
    const auto& lane = impl_->on_lane[index_of(event.lane)];
    const std::uint64_t earlier = lane.empty() ? event.ticket : lane.front().ticket - 1;
    return text_of(Event{event.lane, event.ticket - std::min(event.ticket, earlier)});
  };
  for (const TraceRecord& record : impl_->records) {
    text << (record.by_submitter ? "submitter" : text_of_event({record.lane, record.ticket})) << " "
         << record.what.name << text_of(record.what.tag);
    for (const ByteRange& range : record.what.accesses.reads) {
      text << " reads " << impl_->place(range);
    }
    for (const ByteRange& range : record.what.accesses.writes) {
      text << " writes " << impl_->place(range);
    }
    for (const Wait& wait : record.waits) {
      text << " after " << text_of_event(wait.event) << "(" << name_of(wait.why) << ")";
    }
    for (const Event& event : record.joined) text << " joined " << text_of_event(event);
    text << "\n";
  }
  return text.str();
}

}  // namespace strata
