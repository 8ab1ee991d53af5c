// What all devices share: waits of the submitting thread, the list of arenas, and the joins and
// accesses that a trace needs.

#include "strata/device/device.h"

#include <exception>
#include <functional>
#include <stdexcept>
#include <utility>

namespace strata {

namespace {

/// Returns whether `inner` lies within `outer`. Pointers of different blocks compare by std::less
/// only.
bool holds(const ByteRange& outer, const ByteRange& inner) {
  constexpr std::less_equal<> kNotAfter;
  return kNotAfter(outer.begin, inner.begin) && kNotAfter(inner.begin, outer.begin + outer.bytes) &&
         inner.bytes <= static_cast<std::size_t>(outer.begin + outer.bytes - inner.begin);
}

/// Calls `wait` for each stream, also after one for which it throws, and rethrows the first
/// exception then: what the other lanes run may use memory that goes next.
template <class Streams, class Wait>
void wait_for_each(const Streams& streams, const Wait& wait) {
  std::exception_ptr first;
  for (const auto& stream : streams) {
    try {
      wait(*stream);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace

Device::Device(const DeviceOptions& options) : options_(options) {}

void Device::wait(Event event) {
  ++wait_calls_;
  require_submitted(event);
  join(event);
}

void Device::synchronize() {
  ++wait_calls_;
  wait_for_each(streams_, [this](Stream& stream) { join(stream.record()); });
  throw_if_failed();
}

void Device::synchronize_but(Lane lane) {
  ++wait_calls_;
  wait_for_each(streams_, [this, lane](Stream& stream) {
    if (stream.lane() != lane) join(stream.record());
  });
  throw_if_failed();
}

void Device::join(Event event) {
  if (event.ticket == 0) return;
  do_wait(event);
  if (options_.trace != nullptr && options_.trace->active()) joined_.push_back(event);
}

void Device::require_submitted(Event event) const {
  if (event.ticket > streams_[static_cast<std::size_t>(event.lane)]->ticket_) {
    throw std::logic_error("wait for ticket " + std::to_string(event.ticket) + " of the " +
                           std::string(name_of(event.lane)) + " lane, which was not submitted yet");
  }
}

void Device::host_access(std::string_view name, FunctionRef<Accesses()> accesses, const Tag& tag) {
  std::vector<Event> joined = std::exchange(joined_, {});
  if (options_.trace == nullptr || !options_.trace->active()) return;
  options_.trace->submitted({.what = {.name = name,
                                      .kind = SubmissionKind::kHostTask,
                                      .accesses = accesses ? accesses() : Accesses{},
                                      .tag = tag},
                             .waits = {},
                             .joined = std::move(joined),
                             .by_submitter = true});
}

void Device::register_arena(std::string_view name, Space space, ByteRange range) {
  arenas_.push_back({space, range});
  if (options_.trace != nullptr) options_.trace->arena(name, space, range);
}

void Device::unregister_arena(ByteRange range) {
  std::erase_if(arenas_, [&](const ArenaRange& a) { return a.range.begin == range.begin; });
}

std::optional<Space> Device::space_of(ByteRange range) const {
  for (const ArenaRange& arena : arenas_) {
    if (holds(arena.range, range)) return arena.space;
  }
  return std::nullopt;
}

void Device::destroy_streams() {
  for (auto& stream : streams_) stream.reset();
}

}  // namespace strata
