// The abstract machine that everything above is written against: seven in-order lanes, events
// between them, and memory. A backend implements it for host threads, CUDA or a dry run, and owns
// it; the schedule, the stores and the model submit to it from one thread, the submitting thread.
// Work that fails on a lane is thrown to that thread by throw_if_failed().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/base/function_ref.h"
#include "strata/device/execution.h"
#include "strata/device/lane.h"
#include "strata/device/lane_state.h"
#include "strata/device/stream.h"
#include "strata/device/trace.h"

namespace strata {

struct DeviceInfo {
  std::string backend;           ///< "cpu", "cuda" or "dry"
  std::string name;              ///< "NVIDIA H200", or the processor's model name
  std::size_t memory_bytes = 0;  ///< device memory in all; for cpu the host's
  std::size_t free_bytes = 0;    ///< of it, what nobody holds now; 0 if unknown
  double peak_bf16_tflops = 0;   ///< dense, of the datasheet; 0 if unknown
  std::string pci_bus_id{};      ///< "0000:1B:00.0"; empty if unknown
  std::string uuid{};            ///< 32 hexadecimal digits; empty if unknown
  int driver_version = 0;        ///< CUDA version that the driver offers, as 12080; 0 if unknown
  int runtime_version = 0;       ///< CUDA version of the program's runtime, as 12080
  int capability = 0;            ///< of CUDA devices, 10 * major + minor; 0 if unknown
};

struct DeviceOptions {
  Execution execution = Execution::kThreads;
  std::uint64_t shuffle_seed = 0;
  int device_index = 0;           ///< CUDA ordinal
  bool poison_slots = false;      ///< debug: a slot is filled with NaN bytes before it is refilled
  bool synchronize_each = false;  ///< debug: wait after every submission
  std::optional<WaitFor> omit_wait{};  ///< test of the race oracle: waits of this kind are left out
  TraceSink* trace = nullptr;          ///< may be null; must outlive the device
};

/// Memory obtained from a device. Destroying the object frees it.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  [[nodiscard]] virtual std::byte* data() const = 0;
};

/// The abstract machine of one rank: seven lanes, events, memory. Everything is called by one
/// thread, the submitting thread.
class Device {
 public:
  explicit Device(const DeviceOptions& options);
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] virtual DeviceInfo info() const = 0;
  [[nodiscard]] Stream& stream(Lane lane) { return *streams_[static_cast<std::size_t>(lane)]; }
  [[nodiscard]] const Stream& stream(Lane lane) const {
    return *streams_[static_cast<std::size_t>(lane)];
  }
  [[nodiscard]] const DeviceOptions& options() const { return options_; }

  /// Returns memory with undefined contents; called at start-up only. Throws OutOfMemory with the
  /// bytes asked for and those free.
  [[nodiscard]] virtual std::unique_ptr<DeviceMemory> allocate(Space space, std::size_t bytes) = 0;
  /// Returns the bytes of device memory that this process holds now (context and libraries
  /// included), measured. For cpu they are the bytes of live kDevice allocations; dry holds none.
  [[nodiscard]] virtual std::size_t device_bytes_in_use() const = 0;

  /// Returns the seconds in which tasks of the host lane have run so far; 0 where none do. Any
  /// thread may ask.
  [[nodiscard]] virtual double host_busy_s() const { return 0; }

  /// Returns what a lane is at; any thread may ask. A device whose lanes run nothing says so.
  [[nodiscard]] virtual LaneState lane_state(Lane /*lane*/) const { return {}; }

  /// Blocks the submitting thread until `event` has passed. A step calls it only before its first
  /// submission: to run at most one step ahead, and for batch buffers. A full queue is waited for
  /// by Stream::submit, which does not count as a call.
  void wait(Event event);
  /// Blocks until every lane is idle, then throws why one cannot be waited for, or what one threw.
  void synchronize();
  /// Blocks until every lane but this one is idle, then throws as synchronize() does.
  void synchronize_but(Lane lane);
  /// Rethrows the first exception of a lane's work, or throws that the device is lost.
  virtual void throw_if_failed() = 0;
  /// Tells the trace that the submitting thread itself touches memory that lanes use. `accesses` is
  /// called only if somebody records; {} touches nothing.
  void host_access(std::string_view name, FunctionRef<Accesses()> accesses, const Tag& tag);

  /// Returns the calls of wait() and synchronize(), and of allocate(), so far; tests bound them per
  /// step.
  [[nodiscard]] std::int64_t wait_calls() const { return wait_calls_; }
  [[nodiscard]] std::int64_t allocations() const { return allocations_; }

  /// Arenas register their memory here: copies may touch it, and traces name it.
  void register_arena(std::string_view name, Space space, ByteRange range);
  void unregister_arena(ByteRange range);
  /// Returns the space of the arena that holds the range, if one does.
  [[nodiscard]] std::optional<Space> space_of(ByteRange range) const;

 protected:
  friend class Stream;
  virtual void do_wait(Event event) = 0;
  void set_stream(Lane lane, std::unique_ptr<Stream> stream) {
    streams_[static_cast<std::size_t>(lane)] = std::move(stream);
  }
  /// Derived destructors call this first: lanes must go before what they use.
  void destroy_streams();
  std::int64_t allocations_ = 0;

 private:
  struct ArenaRange {
    Space space;
    ByteRange range;
  };
  /// Blocks until `event` has passed; the trace orders what follows after it.
  void join(Event event);
  /// Throws std::logic_error if the event's ticket was not submitted yet.
  void require_submitted(Event event) const;

  DeviceOptions options_;
  std::array<std::unique_ptr<Stream>, kLaneCount> streams_;
  std::vector<ArenaRange> arenas_;
  std::vector<Event> joined_;  ///< waited for by the submitting thread since the last trace record
  std::int64_t wait_calls_ = 0;
};

}  // namespace strata
