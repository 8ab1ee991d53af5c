// The control plane of a run: the group of processes that train together, and the few words that
// they exchange on host memory. Commands make a group with make_world_ranks(); everything that has
// to know its rank, agree on a number or end the job is given a Ranks&. It knows nothing of devices
// or streams: shards of weights and gradients travel by Collectives (strata/comm/collectives.h),
// which are made from a group and a device.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

class Collectives;
class Postbox;

/// Who makes a call of the control plane. Each channel is independent of the others, so threads do
/// not get in each other's way; within a channel all ranks make the same calls in the same order.
enum class Channel : std::uint8_t {
  kSubmit,  ///< the submitting thread
  kHost,    ///< tasks on the kHost lane
  kSave,    ///< tasks on the kSave lane
};
inline constexpr int kChannelCount = 3;

/// A group of ranks. Calls that take a channel block the calling thread until the other ranks have
/// made theirs, and throw BackendError if the connection fails.
class Ranks {
 public:
  virtual ~Ranks() = default;

  /// Returns this process's place in the group, in [0, size()).
  [[nodiscard]] virtual int rank() const = 0;
  /// Returns the number of ranks in the group, at least 1.
  [[nodiscard]] virtual int size() const = 0;
  /// Returns what connects the ranks, for logs: "self", "mpi", "dry".
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Returns the name of the machine that this rank runs on, see this_host().
  [[nodiscard]] virtual std::string host() const;

  /// Returns once every rank has called it.
  virtual void barrier(Channel channel) = 0;
  /// Replaces each value by its sum over ranks. Every rank gets the same bits, and gets them again
  /// when the same ranks call it with the same values. The order of the addition is not promised.
  virtual void all_reduce_sum(std::span<double> values, Channel channel) = 0;
  /// Replaces the bytes by those of rank `root`. All ranks pass the same number of bytes.
  virtual void broadcast(std::span<std::byte> bytes, int root, Channel channel) = 0;
  /// Returns the bytes of all ranks, one rank's after the other's by rank. All ranks pass the same
  /// number of bytes.
  [[nodiscard]] virtual std::vector<std::byte> all_gather_host(std::span<const std::byte> bytes,
                                                               Channel channel) = 0;
  /// Returns true on every rank if `failed` is true on any.
  [[nodiscard]] bool any_failed(bool failed, Channel channel);
  /// Returns the group of those ranks that pass the same `group`, in the order that they have here,
  /// with connections of its own. All ranks call it; what it returns goes before this group does.
  [[nodiscard]] virtual std::unique_ptr<Ranks> split(int group) = 0;
  /// Takes all ranks down, those of other groups as well; the caller has logged why. `code` becomes
  /// the exit code of the job.
  [[noreturn]] virtual void abort(int code) = 0;

  /// For make_collectives alone: returns collectives whose work runs in host tasks and travels over
  /// the connection of this group. All ranks call it, use one at a time, and keep the group alive
  /// for longer. Throws std::logic_error if the group has no connection.
  [[nodiscard]] virtual std::unique_ptr<Collectives> make_host_collectives() = 0;
  /// Returns this rank's end of a connection for letters; the group outlives it. Make one at a
  /// time, and on all ranks.
  [[nodiscard]] virtual std::unique_ptr<Postbox> make_postbox() = 0;

  /// Returns whether a call on this channel is under way, here or in a group that was split from
  /// this one: its thread may wait for other ranks. Any thread may ask.
  [[nodiscard]] bool meets(Channel channel) const {
    return meets_[static_cast<std::size_t>(channel)].load(std::memory_order_relaxed);
  }

 protected:
  Ranks() = default;
  /// A group that was split from `whole`, if that is not null.
  explicit Ranks(Ranks* whole) : whole_(whole == nullptr ? *this : whole->whole_) {}

  /// A call on a channel, as long as it lasts. Groups whose calls wait make one in each.
  class Meeting {
   public:
    Meeting(Ranks& ranks, Channel channel)
        : meets_(ranks.whole_.meets_[static_cast<std::size_t>(channel)]) {
      meets_.store(true, std::memory_order_relaxed);
    }
    ~Meeting() { meets_.store(false, std::memory_order_relaxed); }
    Meeting(const Meeting&) = delete;
    Meeting& operator=(const Meeting&) = delete;

   private:
    std::atomic<bool>& meets_;
  };

 private:
  Ranks& whole_ = *this;  ///< the group of all ranks, which all that is split notes its calls in
  std::array<std::atomic<bool>, kChannelCount> meets_{};
};

/// Returns STRATA_HOSTID if the environment sets it, else the system's name of this machine. Set it
/// where the machines of a job all have the same name, as containers may.
[[nodiscard]] std::string this_host();

/// Returns the group of one.
[[nodiscard]] std::unique_ptr<Ranks> make_self_ranks();
/// Returns rank `rank` of a group of `ranks` that exists on paper only: for dry runs. Every call
/// returns at once, as if the other ranks had contributed zeros; a broadcast leaves the bytes as
/// they are. It connects nothing and makes no collectives that move data.
[[nodiscard]] std::unique_ptr<Ranks> make_dry_ranks(int rank, int ranks);
/// Returns all ranks of the MPI job. Initialises MPI on first use and finalises it on destruction.
/// Throws BackendError if this MPI does not offer MPI_THREAD_MULTIPLE, or, saying how to build it,
/// if this program has no MPI.
[[nodiscard]] std::unique_ptr<Ranks> make_mpi_ranks();
/// Returns what the MPI that this program runs with calls itself, such as "Open MPI v4.1.4,
/// package:
/// ...", or nothing if this program has no MPI. It initialises nothing.
[[nodiscard]] std::string mpi_library();
/// Returns what the launcher started: ranks of MPI if the environment shows an MPI or PMI(x)
/// launcher with more than one rank, else the group of one. Throws ConfigError if the environment
/// shows several SLURM tasks that no MPI connects (each would believe that it is alone), or another
/// number of ranks than MPI has connected.
[[nodiscard]] std::unique_ptr<Ranks> make_world_ranks();
/// Returns how many ranks the launcher says it has started on this host, if it says so.
[[nodiscard]] std::optional<int> launched_on_host();

}  // namespace strata
