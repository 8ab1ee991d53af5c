// Ranks as threads that meet in rooms and show each other addresses. Sums run in rank order, as
// those of MPI do, and every rank leaves a meeting only after all have read.

#include "support/thread_communicator.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "comm/collective.h"
#include "strata/base/error.h"

namespace strata {

namespace {

constexpr int kComm = kChannelCount;  // the comm lanes meet in a room of their own
constexpr int kRoomCount = kChannelCount + 1;
constexpr std::byte kPoison{0xFF};  // all bits set: NaN

/// Where the ranks meet: each shows an address to the others.
class Group {
 public:
  explicit Group(int ranks) : ranks_(ranks) {
    for (Room& room : rooms_) room.shown.resize(static_cast<std::size_t>(ranks));
  }

  [[nodiscard]] int ranks() const { return ranks_; }

  /// Blocks until every rank has come; then everybody sees what the others showed when they came.
  /// Throws BackendError if a rank has failed.
  std::vector<std::byte*> meet(int room_index, int rank, std::byte* shown) {
    Room& room = rooms_[static_cast<std::size_t>(room_index)];
    std::unique_lock lock(mutex_);
    if (failed_) throw BackendError("another rank has failed");
    room.shown[static_cast<std::size_t>(rank)] = shown;
    const std::int64_t meeting = room.meetings;
    if (++room.present == ranks_) {
      room.present = 0;
      room.seen = room.shown;
      ++room.meetings;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return room.meetings != meeting || failed_; });
    if (room.meetings == meeting) throw BackendError("another rank has failed");
    return room.seen;
  }

  /// Keeps the first exception and releases everybody who waits.
  void fail(std::exception_ptr exception) {
    const std::scoped_lock lock(mutex_);
    if (!failed_) first_ = std::move(exception);
    failed_ = true;
    changed_.notify_all();
  }
  void rethrow_first() {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  struct Room {
    std::vector<std::byte*> shown;  ///< by rank, by those who have come
    std::vector<std::byte*>
        seen;  ///< at the last full meeting: a fast rank may show its next already
    int present = 0;
    std::int64_t meetings = 0;
  };
  int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Room, kRoomCount> rooms_;
  bool failed_ = false;
  std::exception_ptr first_;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(Group& group, int rank) : group_(group), rank_(rank) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return group_.ranks(); }
  [[nodiscard]] std::string_view name() const override { return "threads"; }

  void all_gather(Stream& comm, const TensorView& full, const Tag& tag) override {
    const Shards shards = shards_of(kAllGather, full, size());
    comm.submit(all_gather_submission(shards, rank_, tag),
                [&] { comm.enqueue_host([this, shards] { gather_now(shards, kComm); }); });
  }
  void reduce_scatter(Stream& comm, const TensorView& full, const Tag& tag) override {
    const Shards shards = summable_shards_of(full, size());
    comm.submit(reduce_scatter_submission(shards, tag),
                [&] { comm.enqueue_host([this, shards] { reduce_scatter_now(shards); }); });
  }

  void barrier(Channel channel) override { group_.meet(room(channel), rank_, nullptr); }

  void all_reduce_sum(std::span<double> values, Channel channel) override {
    const std::vector<std::byte> all = all_gather_host(std::as_bytes(values), channel);
    std::vector<const std::byte*> parts;
    for (int r = 0; r < size(); ++r) {
      parts.push_back(all.data() + static_cast<std::size_t>(r) * values.size_bytes());
    }
    sum_in_rank_order(DType::kF64, parts, values.size_bytes(),
                      std::as_writable_bytes(values).data());
  }

  void broadcast(std::span<std::byte> bytes, int root, Channel channel) override {
    const auto shown = group_.meet(room(channel), rank_, bytes.data());
    const std::byte* from = shown[static_cast<std::size_t>(root)];
    if (rank_ != root) std::copy_n(from, bytes.size(), bytes.data());
    group_.meet(room(channel), rank_, nullptr);
  }

  [[nodiscard]] std::vector<std::byte> all_gather_host(std::span<const std::byte> bytes,
                                                       Channel channel) override {
    std::vector<std::byte> all(bytes.size() * static_cast<std::size_t>(size()));
    const Shards shards{.data = all.data(), .shard_bytes = bytes.size(), .ranks = size()};
    std::copy(bytes.begin(), bytes.end(), shards.at(rank_));
    gather_now(shards, room(channel));
    return all;
  }

  [[noreturn]] void abort(int code) override {
    const BackendError error("rank " + std::to_string(rank_) + " aborted with exit code " +
                             std::to_string(code));
    group_.fail(std::make_exception_ptr(error));
    throw error;
  }

 private:
  [[nodiscard]] static int room(Channel channel) { return static_cast<int>(channel); }

  void gather_now(const Shards& full, int room_index) {
    const auto shown = group_.meet(room_index, rank_, full.data);
    for (int r = 0; r < size(); ++r) {
      if (r == rank_) continue;
      const Shards theirs{shown[static_cast<std::size_t>(r)], full.shard_bytes, size(), full.dtype};
      std::copy_n(theirs.at(r), full.shard_bytes, full.at(r));
    }
    group_.meet(room_index, rank_, nullptr);
  }

  void reduce_scatter_now(const Shards& full) {
    const auto shown = group_.meet(kComm, rank_, full.data);
    std::vector<const std::byte*> parts;
    for (std::byte* theirs : shown) {
      parts.push_back(Shards{theirs, full.shard_bytes, size(), full.dtype}.at(rank_));
    }
    sum_in_rank_order(full.dtype, parts, full.shard_bytes, full.at(rank_));
    group_.meet(kComm, rank_, nullptr);
    for (int r = 0; r < size(); ++r) {
      if (r != rank_) std::fill_n(full.at(r), full.shard_bytes, kPoison);
    }
  }

  Group& group_;
  int rank_;
};

}  // namespace

void run_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  Group group(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&group, &body, rank] {
      ThreadCommunicator communicator(group, rank);
      try {
        body(communicator);
      } catch (...) {
        group.fail(std::current_exception());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  group.rethrow_first();
}

}  // namespace strata
