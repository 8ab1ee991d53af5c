// The words of the abstract machine: its seven lanes, events between them, reasons of waits, and
// tags that say who asked for work. Everything is a plain value; device, stores, schedule and
// traces speak in these.
#pragma once

#include <cstdint>
#include <string_view>

namespace strata {

/// The in-order queues of a rank. The two in-lanes share the copy engine but not the order, so a
/// weight load that waits for its update holds up no spilled activation, except for the turns that
/// interleaved state takes (WaitFor::kTurn). Within a lane, work is submitted in the order in which
/// it is needed.
enum class Lane : std::uint8_t {
  kCompute,        ///< kernels
  kWeightsIn,      ///< host to device: weights; in backward also interleaved state
  kActivationsIn,  ///< host to device: batches, spilled activations; in forward also state
  kOut,            ///< device to host: gradients, activations, losses, state; updates
  kComm,           ///< collectives
  kHost,           ///< tasks on a host thread: optimizer, sums, metrics
  kSave,           ///< tasks on a second host thread: saves of the state go to files
};
inline constexpr int kLaneCount = 7;
/// The lanes whose work is host tasks on every backend.
inline constexpr int kHostLaneCount = 2;
/// Returns true for these. Their threads make no call of a device, and they cannot touch its
/// memory.
[[nodiscard]] constexpr bool is_host_lane(Lane lane) {
  return lane == Lane::kHost || lane == Lane::kSave;
}
/// Returns the name of a lane in traces and messages, such as "weights_in".
[[nodiscard]] std::string_view name_of(Lane lane);

/// The statement "everything submitted on `lane` up to and including `ticket` has finished". A
/// value: it can be kept, copied and waited for any number of times. Ticket 0 has always passed.
struct Event {
  Lane lane = Lane::kCompute;
  std::uint64_t ticket = 0;
};

/// What a wait protects. Traces show it; the race oracle is tested by leaving out one kind at a
/// time.
enum class WaitFor : std::uint8_t {
  kFilled,    ///< a slot's content must have arrived before it is read
  kReuse,     ///< everybody who used a slot must have finished before it is filled again
  kUpdated,   ///< a unit's optimizer update must have finished before its weights are loaded
  kArrived,   ///< a gradient, loss or norm must have arrived on the host before the host reads it
  kGathered,  ///< a collective's input must be complete, or its output
  kTaken,     ///< the host must have finished with a buffer before it is written again
  kDecided,   ///< what the host decides (clip factor, skip) must be known before a device reads it
  kSaved,     ///< what is about to change must have been written to its file, or copied for it
  kTurn,      ///< protects nothing: lets another lane have the link that they share first
};
inline constexpr int kProtectingWaitCount = 8;  ///< all but kTurn
/// Returns the name of a reason in traces, such as "filled".
[[nodiscard]] std::string_view name_of(WaitFor why);

/// Who asked for a submission, for traces and error messages. -1 means that it belongs to no pass,
/// unit or cell, and that it is no chunk of something long.
struct Tag {
  std::string_view phase = "";  ///< a literal: "forward", "backward", "update", ...
  int pass = -1;
  int unit = -1;
  int cell = -1;
  int chunk = -1;
};

}  // namespace strata
