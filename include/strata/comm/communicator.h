#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "strata/base/tensor.h"
#include "strata/device/stream.h"

namespace strata {

/// Who calls a control-plane collective. Each channel is independent of the others, so threads do
/// not get in each other's way; within a channel all ranks make the same calls in the same order.
enum class Channel : std::uint8_t {
  kSubmit,  ///< the submitting thread
  kHost,    ///< tasks on the kHost lane
};
inline constexpr int kChannelCount = 2;

/// A group of ranks. Data collectives are submitted to the comm lane and never block; they work in
/// place on one buffer of `size()` equal shards, of which shard `rank()` is this rank's own. Sums
/// are taken in ascending rank order, so every rank count has one result.
class Communicator {
 public:
  virtual ~Communicator() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// Name for logs: "self", "mpi", "nccl".
  [[nodiscard]] virtual std::string_view name() const = 0;

  /// full [size() * shard] any dtype: on entry the own shard is valid, afterwards all of it is.
  virtual void all_gather(Stream& comm, const TensorView& full, const Tag& tag) = 0;
  /// full [size() * shard] f32 or f64: afterwards the own shard holds the sum over ranks; the other
  /// shards are undefined.
  virtual void reduce_scatter(Stream& comm, const TensorView& full, const Tag& tag) = 0;

  // Control plane: blocks the calling thread.
  virtual void barrier(Channel channel) = 0;
  /// Element-wise sum over ranks in rank order, the same bits on every rank.
  virtual void all_reduce_sum(std::span<double> values, Channel channel) = 0;
  virtual void broadcast(std::span<std::byte> bytes, int root, Channel channel) = 0;
  /// Concatenation of every rank's bytes (equal sizes), in rank order.
  [[nodiscard]] virtual std::vector<std::byte> all_gather_host(std::span<const std::byte> bytes,
                                                               Channel channel) = 0;
  /// True on every rank if `failed` is true on any.
  [[nodiscard]] bool any_failed(bool failed, Channel channel);
  /// Takes all ranks down after a message was logged. `code` is the exit code.
  [[noreturn]] virtual void abort(int code) = 0;
};

/// The group of one.
[[nodiscard]] std::unique_ptr<Communicator> make_self_communicator();
/// All ranks of the MPI job; initialises MPI (MPI_THREAD_MULTIPLE or BackendError) on first use and
/// finalises it on destruction. Throws BackendError that says how to build it if MPI is absent.
[[nodiscard]] std::unique_ptr<Communicator> make_mpi_communicator();
/// What the launcher started: MPI if the environment shows an MPI or PMI(x) launcher with more than
/// one rank, else self. Throws BackendError if the environment shows several SLURM tasks but no MPI
/// connects them (each rank would believe that it is alone).
[[nodiscard]] std::unique_ptr<Communicator> make_world_communicator();

}  // namespace strata
