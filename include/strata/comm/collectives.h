// The data plane between ranks: what gathers weights and scatters gradients, submitted to the comm
// lane like every other work. The weight and the gradient store call it; a session makes it right
// after the device, before memory is counted, because a library may take some for itself. There is
// one implementation for each way in which the memory of a device can reach other ranks.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "strata/base/tensor.h"
#include "strata/comm/ranks.h"
#include "strata/device/device.h"
#include "strata/device/stream.h"

namespace strata {

/// A buffer of `ranks` equal shards, one after the other; shard r belongs to rank r.
struct Shards {
  std::byte* data = nullptr;    ///< [ranks, shard_bytes]
  std::size_t shard_bytes = 0;  ///< of one shard
  int ranks = 1;
  DType dtype = DType::kF32;

  [[nodiscard]] std::byte* at(int rank) const {
    return data + static_cast<std::size_t>(rank) * shard_bytes;
  }
  [[nodiscard]] ByteRange range(int rank) const { return {at(rank), shard_bytes}; }
  [[nodiscard]] ByteRange all() const {
    return {data, static_cast<std::size_t>(ranks) * shard_bytes};
  }
};

/// The collectives of one rank of a group. They work in place on one buffer. They are called by the
/// submitting thread, in the same order and with the same sizes on all ranks, and never block; the
/// work runs in lane order. One rank submits nothing. They throw ShapeError if the buffer is
/// absent, has gaps between its rows or, where it has a shard for each rank, cannot be cut into
/// equal ones.
///
/// What is checked and what is submitted (name, kind, accesses, tag) is written down here, once for
/// all implementations, so that a dry run records what a run submits. An implementation overrides
/// the enqueue functions and promises no more than is said of the collectives.
class Collectives {
 public:
  virtual ~Collectives() = default;
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  /// Gathers all shards on every rank. `full` is [ranks * shard] of any dtype; the own shard is
  /// valid before, all of it is valid afterwards.
  void all_gather(Stream& comm, const TensorView& full, const Tag& tag);
  /// Leaves in the own shard its sum over ranks; the other shards are undefined afterwards. `full`
  /// is [ranks * shard] f32 or f64, and sums are taken in this dtype. Nobody promises an order in
  /// which the contributions of ranks are added: only that the same program, the same ranks and the
  /// same plan give the same bits in every run, where the implementation can give that. Throws
  /// ShapeError for other dtypes.
  void reduce_scatter(Stream& comm, const TensorView& full, const Tag& tag);
  /// Replaces `values`, [n] f32 or f64, by their sums over ranks, the same bits on all of them. Of
  /// the order the same is promised as by reduce_scatter. Throws ShapeError for other dtypes.
  void all_reduce(Stream& comm, const TensorView& values, const Tag& tag);
  /// Returns what went wrong with work that was submitted and of which no lane will tell, or
  /// nothing. Any thread may ask; the watchdog does. Work of host tasks throws instead.
  [[nodiscard]] virtual std::string failure() const { return {}; }

 protected:
  /// Takes this rank's place among `ranks`.
  Collectives(int rank, int ranks) : rank_(rank), ranks_(ranks) {}
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }

  /// Puts the work of one all_gather on the lane's queue; called from inside Stream::submit, and
  /// only if there are several ranks. The memory stays valid until the work has run.
  virtual void enqueue_all_gather(Stream& comm, const Shards& full) = 0;
  /// Does the same for one reduce_scatter.
  virtual void enqueue_reduce_scatter(Stream& comm, const Shards& full) = 0;
  /// Does the same for one all_reduce, of values that are one shard.
  virtual void enqueue_all_reduce(Stream& comm, const Shards& values) = 0;

 private:
  int rank_;
  int ranks_;
};

/// Returns the collectives of these ranks on this device; both outlive them, and they outlive the
/// work that they submitted: wait for the comm lane before they go. All ranks call it.
///   one rank           submits nothing
///   dry device         submits what a run would, touches no data and asks `ranks` for no more than
///                      rank and size
///   cpu device         Ranks::make_host_collectives: tasks on the host thread of the comm lane
///   cuda device        NCCL, loaded now, with its connections made and its memory taken
///   any other device   BackendError
/// The device decides, not the caller: whoever holds a dry device cannot come to talk to other
/// ranks, and no device that trains can be given collectives that only record. A library for
/// another kind of device joins with a row of its own, and no caller changes.
[[nodiscard]] std::unique_ptr<Collectives> make_collectives(Ranks& ranks, Device& device);

/// What this machine has of NCCL, for the checks of a launch and of a machine.
struct NcclFound {
  std::string version{};  ///< "2.28.3"; empty if it cannot be used
  std::string problem{};  ///< why not, with the remedy
};
/// Loads NCCL from the place where systems have it, or from a file of this name.
[[nodiscard]] NcclFound find_nccl();
[[nodiscard]] NcclFound find_nccl(const std::string& library);

}  // namespace strata
