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
  if (space && traits_of(*space).lanes_copy) return *space;
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
  submit(
      {.name = "copy", .kind = SubmissionKind::kCopy, .tag = tag},
      [&] {
        return Footprint{.accesses = {{{static_cast<const std::byte*>(from), bytes}},
                                      {{static_cast<const std::byte*>(to), bytes}}},
                         .cost = {.kind = kind_of_copy(into, out_of), .bytes = bytes}};
      },
      [&] { do_copy(to, from, bytes); });
}

void Stream::set(void* to, std::uint8_t value, std::size_t bytes, const Tag& tag) {
  submit(
      {.name = "set", .kind = SubmissionKind::kSet, .tag = tag},
      [&] { return Footprint{.accesses = {{}, {{static_cast<const std::byte*>(to), bytes}}}}; },
      [&] { do_set(to, value, bytes); });
}

void Stream::host_task(std::string_view name, FunctionRef<Accesses()> accesses, const Tag& tag,
                       std::function<void()> task, const Cost& cost) {
  submit(
      {.name = name, .kind = SubmissionKind::kHostTask, .tag = tag},
      [&] { return Footprint{.accesses = accesses ? accesses() : Accesses{}, .cost = cost}; },
      [&] { enqueue_host(std::move(task)); });
}

void Stream::submit(const SubmissionLabel& label, FunctionRef<Footprint()> describe,
                    FunctionRef<void()> enqueue) {
  // Once the work is on its way it may change what the description is made from.
  const bool recorded = tracing(device_);
  Footprint footprint;
  if (recorded && describe) footprint = describe();

  const std::uint64_t ticket = ticket_ + 1;
  if (queues_in_host_memory()) wait_for_room();
  do_announce(label);
  do_begin(ticket);
  enqueue();
  do_end(ticket);
  ticket_ = ticket;  // an enqueue that threw has submitted nothing

  if (recorded) {
    record_submission(label, std::move(footprint));
  } else {
    pending_waits_.clear();
    device_.joined_.clear();
  }
  if (device_.options().synchronize_each) {
    device_.do_wait({lane_, ticket});
    device_.throw_if_failed();
  }
}

// A lane whose queue is full is waited for at every 512th of its submissions only. Whatever is
// queued waits for earlier submissions alone, so the earliest one that has not finished can always
// run: this wait needs nothing that is submitted after it. No trace shows it, since it orders
// nothing that any buffer relies on.
void Stream::wait_for_room() {
  constexpr std::uint64_t kHalf = kMostQueued / 2;
  if (ticket_ >= kMostQueued && ticket_ % kHalf == 0) device_.do_wait({lane_, ticket_ - kHalf});
}

void Stream::record_submission(const SubmissionLabel& label, Footprint footprint) {
  device_.options().trace->submitted({.lane = lane_,
                                      .ticket = ticket_,
                                      .what = {.name = label.name,
                                               .kind = label.kind,
                                               .accesses = std::move(footprint.accesses),
                                               .tag = label.tag,
                                               .cost = footprint.cost},
                                      .waits = std::exchange(pending_waits_, {}),
                                      .joined = std::exchange(device_.joined_, {})});
}

void Stream::enqueue_host(std::function<void()>) {
  throw BackendError("the " + std::string(name_of(lane_)) +
                     " lane of this backend has no host thread; host work belongs on the " +
                     std::string(name_of(Lane::kHost)) + " lane");
}

}  // namespace strata
