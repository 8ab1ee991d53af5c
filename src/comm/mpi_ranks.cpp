// The group of all processes of an MPI job, and what it is split into. A group has a connection for
// each channel of the control plane, one for the collectives and one for letters, so that threads
// which talk at the same time never take each other's messages. mpi_absent.cpp stands in its place
// in a program without MPI.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <utility>

#include "comm/mpi_calls.h"
#include "comm/mpi_collectives.h"
#include "comm/mpi_postbox.h"
#include "comm/rank_sum.h"
#include "strata/base/log.h"
#include "strata/comm/ranks.h"

namespace strata {

namespace {

/// Returns as many groups of the ranks of `from` as there are indices.
template <std::size_t... kIndex>
std::array<MpiGroup, sizeof...(kIndex)> groups_like(MPI_Comm from, std::index_sequence<kIndex...>) {
  return {(static_cast<void>(kIndex), MpiGroup(from))...};
}

class MpiRanks : public Ranks {
 public:
  /// The ranks of `from` that pass the same `part`, split from `whole`, if they are.
  MpiRanks(MPI_Comm from, int part, Ranks* whole)
      : Ranks(whole),
        lane_(from, part),
        letters_(lane_.get()),
        channels_(groups_like(lane_.get(), std::make_index_sequence<kChannelCount>())) {
    check_mpi(MPI_Comm_rank(lane_.get(), &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(lane_.get(), &size_), "MPI_Comm_size");
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::string_view name() const override { return "mpi"; }

  void barrier(Channel channel) override {
    const Meeting meeting(*this, channel);
    meet(group(channel));
  }
  void all_reduce_sum(std::span<double> values, Channel channel) override {
    sum_in_rank_order(all_gather_host(std::as_bytes(values), channel), values);
  }
  void broadcast(std::span<std::byte> bytes, int root, Channel channel) override;
  [[nodiscard]] std::vector<std::byte> all_gather_host(std::span<const std::byte> bytes,
                                                       Channel channel) override;
  [[nodiscard]] std::unique_ptr<Ranks> split(int group) override {
    return std::make_unique<MpiRanks>(lane_.get(), group, this);
  }
  [[noreturn]] void abort(int code) override { end_job(code); }

  [[nodiscard]] std::unique_ptr<Collectives> make_host_collectives() override {
    return make_mpi_collectives(lane_.get(), rank_, size_);
  }
  [[nodiscard]] std::unique_ptr<Postbox> make_postbox() override {
    return make_mpi_postbox(letters_.get(), rank_, size_, [this](std::span<const std::byte> own) {
      return all_gather_host(own, Channel::kSubmit);
    });
  }

 private:
  [[nodiscard]] MPI_Comm group(Channel channel) const {
    return channels_[static_cast<std::size_t>(channel)].get();
  }

  MpiGroup lane_;     ///< of the collectives
  MpiGroup letters_;  ///< of the postbox
  std::array<MpiGroup, kChannelCount> channels_;
  int rank_ = 0;
  int size_ = 1;
};

/// MPI itself, before and after the connections of the group that has all ranks.
class MpiWorld {
 private:
  MpiLibrary library_;
};

class MpiWorldRanks final : private MpiWorld, public MpiRanks {
 public:
  MpiWorldRanks() : MpiRanks(MPI_COMM_WORLD, 0, nullptr) {}
  ~MpiWorldRanks() override {
    // If an exception is passing by, the others may wait for this rank, and MPI_Finalize for them.
    if (std::uncaught_exceptions() > exceptions_ && size() > 1) {
      log::error("rank {} ends with an exception and takes the other ranks down", rank());
      end_job(EXIT_FAILURE);
    }
  }

 private:
  int exceptions_ = std::uncaught_exceptions();
};

void MpiRanks::broadcast(std::span<std::byte> bytes, int root, Channel channel) {
  const Meeting meeting(*this, channel);
  meet(group(channel));
  while (!bytes.empty()) {
    const std::size_t count = std::min(bytes.size(), kMpiCallBytes);
    check_mpi(MPI_Bcast(bytes.data(), static_cast<int>(count), MPI_BYTE, root, group(channel)),
              "MPI_Bcast");
    bytes = bytes.subspan(count);
  }
}

std::vector<std::byte> MpiRanks::all_gather_host(std::span<const std::byte> bytes,
                                                 Channel channel) {
  std::vector<std::byte> all(bytes.size() * static_cast<std::size_t>(size_));
  const Shards shards{.data = all.data(), .shard_bytes = bytes.size(), .ranks = size_};
  std::copy(bytes.begin(), bytes.end(), shards.at(rank_));
  const Meeting meeting(*this, channel);
  gather_in_place(group(channel), shards);
  return all;
}

}  // namespace

std::unique_ptr<Ranks> make_mpi_ranks() { return std::make_unique<MpiWorldRanks>(); }

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "MPI";
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace strata
