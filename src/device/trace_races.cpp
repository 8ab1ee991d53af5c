// Finds races in a trace: two submissions that touch the same bytes, one of them writing, with no
// order between them. Memory is cut into runs of equal history, so each access is compared only
// with those that it can race with. Every traced run is checked by it, and so are tests; see
// docs/debugging.md.

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "device/trace_impl.h"

namespace strata {

namespace {

using Address = const std::byte*;
using Index = std::size_t;

/// Who touched a run of bytes last. Older accesses need not be kept: within a lane they are ordered
/// before the newest, and what came before a write was compared with that write.
struct History {
  std::optional<Index> write;
  std::array<std::optional<Index>, kLaneCount> reads;
};

/// Bytes cut into runs of equal history.
class Memory {
 public:
  /// Calls visit(begin, end, history) for the runs that cover the range, cutting runs at its ends
  /// and adding empty ones for bytes that nobody touched yet.
  template <class Visit>
  void cover(ByteRange range, const Visit& visit) {
    Address at = range.begin;
    const Address end = range.begin + range.bytes;
    cut(at);
    cut(end);
    auto run = runs_.lower_bound(at);
    while (at != end) {
      if (run == runs_.end() || run->first != at) {
        const Address gap_end = run == runs_.end() ? end : std::min(run->first, end, std::less<>{});
        run = runs_.emplace_hint(run, at, Run{gap_end, {}});
      }
      visit(run->first, run->second.end, run->second.history);
      at = run->second.end;
      ++run;
    }
  }

  /// Gives the whole range one history.
  void replace(ByteRange range, const History& history) {
    const Address end = range.begin + range.bytes;
    cut(range.begin);
    cut(end);
    runs_.erase(runs_.lower_bound(range.begin), runs_.lower_bound(end));
    runs_[range.begin] = {end, history};
  }

 private:
  struct Run {
    Address end;
    History history;
  };

  /// Cuts the run that holds `at`, if one does, so that a run begins there.
  void cut(Address at) {
    auto run = runs_.upper_bound(at);
    if (run == runs_.begin()) return;
    --run;
    if (run->first == at || !std::less<>{}(at, run->second.end)) return;
    runs_.emplace(at, run->second);
    run->second.end = at;
  }

  std::map<Address, Run, std::less<>> runs_;
};

std::string describe(const TraceRecord& record, const char* does) {
  const std::string who =
      record.by_submitter
          ? "the submitting thread"
          : std::string(name_of(record.lane)) + " lane, ticket " + std::to_string(record.ticket);
  return std::string(record.what.name) + " (" + who + text_of(record.what.tag) + ") " + does;
}

/// One access of a record to some bytes.
struct Touch {
  Index record = 0;
  bool writes = false;
};

}  // namespace

std::vector<Race> Recorder::races(std::size_t limit) const {
  std::vector<Race> found;
  std::set<std::pair<Index, Index>> seen;
  const auto compare = [&](Touch first, Touch second, Address begin, Address end) {
    if (first.record == second.record || found.size() >= limit ||
        impl_->ordered(first.record, second.record) ||
        !seen.emplace(first.record, second.record).second) {
      return;
    }
    const ByteRange bytes{begin, static_cast<std::size_t>(end - begin)};
    const auto verb = [](const Touch& touch) { return touch.writes ? "writes" : "reads"; };
    found.push_back({first.record, second.record, bytes,
                     describe(impl_->records[first.record], verb(first)) + " and " +
                         describe(impl_->records[second.record], verb(second)) + " " +
                         impl_->place(bytes) + " with no order between them"});
  };

  Memory memory;
  for (Index i = 0; i < impl_->records.size() && found.size() < limit; ++i) {
    const TraceRecord& record = impl_->records[i];
    for (const ByteRange& range : record.what.accesses.reads) {
      memory.cover(range, [&](Address begin, Address end, History& history) {
        if (history.write) compare({*history.write, true}, {i, false}, begin, end);
        // What comes later is ordered after an access of the submitting thread in any case.
        if (!record.by_submitter) history.reads[index_of(record.lane)] = i;
      });
    }
    for (const ByteRange& range : record.what.accesses.writes) {
      memory.cover(range, [&](Address begin, Address end, const History& history) {
        if (history.write) compare({*history.write, true}, {i, true}, begin, end);
        for (const auto& read : history.reads) {
          if (read) compare({*read, false}, {i, true}, begin, end);
        }
      });
      memory.replace(range, {.write = i, .reads = {}});
    }
  }
  return found;
}

}  // namespace strata
