// What all streams share: tickets, waits that are not repeated, checks of copies, and the record of
// each submission for the trace.

#include "strata/device/stream.h"

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "strata/device/device.h"

namespace strata {

namespace {

bool tracing(const Device& device) {
  const TraceSink* trace = device.options().trace;
  return trace != nullptr && trace->active();
}

/// Returns where the bytes of a copy are. Throws BackendError if a lane cannot copy them.
Space copyable_space(const Device& device, const char* role, const void* data, std::size_t bytes) {
  if (bytes == 0) return Space::kDevice;
  const auto space = device.space_of({static_cast<const std::byte*>(data), bytes});
  if (space == Space::kDevice || space == Space::kPinned) return *space;
  throw BackendError("copy: the " + std::string(role) + " of " + std::to_string(bytes) +
                     " bytes is not within one arena of device or pinned memory; a lane cannot " +
                     "copy pageable memory without blocking: take it from a pinned arena");
}

CostKind kind_of_copy(Space to, Space from) {
  if (to == from) return CostKind::kMemory;
  return to == Space::kDevice ? CostKind::kLinkIn : CostKind::kLinkOut;
}

}  // namespace

Event Stream::record() {
  do_record(ticket_);
  return {lane_, ticket_};
}

void Stream::wait(Event event, WaitFor why) {
  device_.require_submitted(event);
  const DeviceOptions& options = device_.options();
  std::uint64_t& waited = waited_[static_cast<std::size_t>(event.lane)];
  if (event.lane == lane_ || event.ticket <= waited || options.omit_wait == why) return;
  waited = event.ticket;
  do_wait(event);
  if (tracing(device_)) pending_waits_.push_back({event, why});
}

void Stream::copy(void* to, const void* from, std::size_t bytes, const Tag& tag) {
  const Space into = copyable_space(device_, "destination", to, bytes);
  const Space out_of = copyable_space(device_, "source", from, bytes);
  submit({.name = "copy",
          .kind = SubmissionKind::kCopy,
          .accesses = {{{static_cast<const std::byte*>(from), bytes}},
                       {{static_cast<const std::byte*>(to), bytes}}},
          .tag = tag,
          .cost = {.kind = kind_of_copy(into, out_of), .bytes = bytes}},
         [&] { do_copy(to, from, bytes); });
}

void Stream::set(void* to, std::uint8_t value, std::size_t bytes, const Tag& tag) {
  submit({.name = "set",
          .kind = SubmissionKind::kSet,
          .accesses = {{}, {{static_cast<const std::byte*>(to), bytes}}},
          .tag = tag},
         [&] { do_set(to, value, bytes); });
}

void Stream::host_task(std::string_view name, Accesses accesses, const Tag& tag,
                       std::function<void()> task, const Cost& cost) {
  submit({.name = name,
          .kind = SubmissionKind::kHostTask,
          .accesses = std::move(accesses),
          .tag = tag,
          .cost = cost},
         [&] { enqueue_host(std::move(task)); });
}

void Stream::submit(Submission what, const std::function<void()>& enqueue) {
  const std::uint64_t ticket = ticket_ + 1;
  do_announce(what);
  do_begin(ticket);
  enqueue();
  do_end(ticket);
  ticket_ = ticket;  // an enqueue that threw has submitted nothing

  std::vector<Wait> waits = std::exchange(pending_waits_, {});
  std::vector<Event> joined = std::exchange(device_.joined_, {});
  if (tracing(device_)) {
    device_.options().trace->submitted({.lane = lane_,
                                        .ticket = ticket,
                                        .what = std::move(what),
                                        .waits = std::move(waits),
                                        .joined = std::move(joined)});
  }
  if (device_.options().synchronize_each) {
    device_.do_wait({lane_, ticket});
    device_.throw_if_failed();
  }
}

void Stream::enqueue_host(std::function<void()>) {
  throw BackendError("the " + std::string(name_of(lane_)) +
                     " lane of this backend has no host thread; host work belongs on the " +
                     std::string(name_of(Lane::kHost)) + " lane");
}

}  // namespace strata
