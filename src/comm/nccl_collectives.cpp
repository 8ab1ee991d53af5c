// Submits NCCL's collectives in place: of a gather each rank's shard lies where the whole buffer
// has it, and so does the shard of sums. An error that NCCL meets while a collective runs is told
// to nobody who waits; the watchdog asks for it by failure().
#include "comm/nccl_collectives.h"

#include <array>
#include <cstdlib>
#include <exception>
#include <span>
#include <string>
#include <utility>

#include "strata/base/error.h"
#include "strata/device/arena.h"

namespace strata {

namespace {

/// The sizes of buffers, in f32 for each rank, that run when NCCL has connected: it chooses its
/// protocol, and what memory it takes, by size.
constexpr std::array<std::int64_t, 3> kWarmUpElements = {256, 32 << 10, 256 << 10};

NcclType type_of(DType dtype) { return dtype == DType::kF64 ? NcclType::kF64 : NcclType::kF32; }

class NcclCollectives final : public Collectives {
 public:
  NcclCollectives(NcclApi api, Ranks& ranks)
      : Collectives(ranks.rank(), ranks.size()), api_(std::move(api)) {
    // NVLink multicast stays off unless the user asks for it: it takes GPUs of a shared host for
    // all jobs there, and virtual machines may not have it.
    ::setenv("NCCL_NVLS_ENABLE", "0", /*overwrite=*/0);
    NcclId id{};
    if (rank() == 0) check(api_.get_unique_id(&id), "begin a connection");
    ranks.broadcast(std::as_writable_bytes(std::span(id.bytes)), 0, Channel::kSubmit);
    check(api_.comm_init_rank(&comm_, this->ranks(), id, rank()), "connect");
  }
  /// NCCL waits for the other ranks when it closes a connection. They may never come if it has
  /// failed, or if an error takes it down here.
  ~NcclCollectives() override {
    if (comm_ == nullptr) return;
    const bool fails = std::uncaught_exceptions() > exceptions_ || !failure().empty();
    fails ? api_.comm_abort(comm_) : api_.comm_destroy(comm_);
  }

  [[nodiscard]] std::string failure() const override {
    NcclResult error{};
    const NcclResult asked = api_.comm_get_async_error(comm_, &error);
    if (asked != NcclResult::kSuccess) error = asked;
    if (error == NcclResult::kSuccess || error == NcclResult::kInProgress) return {};
    const char* const last = api_.get_last_error(comm_);
    return std::string("NCCL: ") + api_.get_error_string(error) +
           (last == nullptr || *last == '\0' ? "" : std::string(" (") + last + ")");
  }

 private:
  void enqueue_all_gather(Stream& comm, const Shards& full) override {
    if (full.shard_bytes == 0) return;
    check(api_.all_gather(full.at(rank()), full.data, full.shard_bytes, NcclType::kU8, comm_,
                          comm.native()),
          "gather");
  }
  void enqueue_reduce_scatter(Stream& comm, const Shards& full) override {
    if (full.shard_bytes == 0) return;
    check(api_.reduce_scatter(full.data, full.at(rank()), full.shard_bytes / size_of(full.dtype),
                              type_of(full.dtype), NcclSum::kSum, comm_, comm.native()),
          "sum and scatter");
  }
  void enqueue_all_reduce(Stream& comm, const Shards& values) override {
    if (values.shard_bytes == 0) return;
    check(api_.all_reduce(values.data, values.data, values.shard_bytes / size_of(values.dtype),
                          type_of(values.dtype), NcclSum::kSum, comm_, comm.native()),
          "sum");
  }

  void check(NcclResult result, const std::string& doing) const {
    check_nccl(api_, result,
               doing + " on rank " + std::to_string(rank()) + " of " + std::to_string(ranks()),
               comm_);
  }

  NcclApi api_;
  NcclComm comm_ = nullptr;
  int exceptions_ = std::uncaught_exceptions();
};

/// `memory` has the bytes of the largest buffer.
void warm_up(Collectives& collectives, int ranks, Device& device, std::byte* memory) {
  Stream& comm = device.stream(Lane::kComm);
  for (const std::int64_t elements : kWarmUpElements) {
    const TensorView full(memory, DType::kF32, {elements * ranks});
    const Tag tag{.phase = "warm_up"};
    comm.set(full.data, 0, full.bytes().bytes, tag);
    collectives.all_gather(comm, full, tag);
    collectives.reduce_scatter(comm, full, tag);
    collectives.all_reduce(comm, full, tag);
    device.synchronize();
  }
}

}  // namespace

std::unique_ptr<Collectives> make_nccl_collectives(NcclApi api, Ranks& ranks, Device& device) {
  const std::size_t bytes =
      static_cast<std::size_t>(kWarmUpElements.back() * ranks.size()) * sizeof(float);
  // Memory waits for all lanes when it goes, so the connection that they may wait in goes first.
  Arena arena(device, Space::kDevice, bytes, "warm-up of collectives");
  auto collectives = std::make_unique<NcclCollectives>(std::move(api), ranks);
  warm_up(*collectives, ranks.size(), device, arena.allocate("shards", bytes));
  return collectives;
}

}  // namespace strata
