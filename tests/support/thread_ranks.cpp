// Implements ranks that are threads. They meet in rooms of shared memory: one room for each channel
// of the control plane and one for the comm lanes. In a meeting every rank shows an address and
// sees those of the others; what lies there stays as it is until a second meeting.
#include "support/thread_ranks.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "comm/rank_sum.h"
#include "strata/base/error.h"
#include "strata/comm/collectives.h"
#include "strata/comm/postbox.h"

namespace strata {

namespace {

constexpr int kComm = kChannelCount;  ///< the room in which the comm lanes meet
constexpr int kRoomCount = kChannelCount + 1;
constexpr std::byte kPoison{0xFF};  // all bits set: NaN

/// Where the ranks meet: each shows an address to the others.
class Group {
 public:
  explicit Group(int ranks) : ranks_(ranks) {
    for (Room& room : rooms_) room.shown.resize(static_cast<std::size_t>(ranks));
    letters_.resize(static_cast<std::size_t>(ranks));
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

  /// Keeps the first exception and releases everybody who waits, here and in the parts.
  void fail(const std::exception_ptr& exception) {
    const std::scoped_lock lock(mutex_);
    if (!failed_) first_ = exception;
    failed_ = true;
    changed_.notify_all();
    for (const auto& [key, part] : parts_) part->fail(exception);
  }

  /// Returns the group of `ranks` ranks that ask for the same part in their turn-th split.
  Group& part(std::int64_t turn, int number, int ranks) {
    const std::scoped_lock lock(mutex_);
    if (failed_) throw BackendError("another rank has failed");
    std::unique_ptr<Group>& part = parts_[{turn, number}];
    if (!part) part = std::make_unique<Group>(ranks);
    return *part;
  }
  /// Gives every other rank a letter.
  void send(const Letter& letter) {
    const std::scoped_lock lock(mutex_);
    for (std::size_t to = 0; to < letters_.size(); ++to) {
      if (static_cast<int>(to) != letter.from) letters_[to].push_back(letter);
    }
  }
  /// Takes the first letter of those that have come for a rank.
  std::optional<Letter> receive(int rank) {
    const std::scoped_lock lock(mutex_);
    std::deque<Letter>& come = letters_[static_cast<std::size_t>(rank)];
    if (come.empty()) return std::nullopt;
    const Letter letter = come.front();
    come.pop_front();
    return letter;
  }
  void rethrow_first() {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  struct Room {
    std::vector<std::byte*> shown;  ///< by rank, what those who have come show
    /// What everybody saw at the last full meeting: a fast rank may show its next address already.
    std::vector<std::byte*> seen;
    int present = 0;
    std::int64_t meetings = 0;
  };
  int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Room, kRoomCount> rooms_;
  std::map<std::pair<std::int64_t, int>, std::unique_ptr<Group>> parts_;
  std::vector<std::deque<Letter>> letters_;  ///< by the rank that they are for
  bool failed_ = false;
  std::exception_ptr first_;
};

/// Fills the shards of `full` from those of the other ranks.
void gather_in(Group& group, int room, int rank, const Shards& full) {
  const auto shown = group.meet(room, rank, full.data);
  for (int r = 0; r < full.ranks; ++r) {
    if (r == rank) continue;
    const Shards theirs{shown[static_cast<std::size_t>(r)], full.shard_bytes, full.ranks,
                        full.dtype};
    std::copy_n(theirs.at(r), full.shard_bytes, full.at(r));
  }
  group.meet(room, rank, nullptr);
}

class ThreadCollectives final : public Collectives {
 public:
  ThreadCollectives(Group& group, int rank) : Collectives(rank, group.ranks()), group_(group) {}

 private:
  void enqueue_all_gather(Stream& comm, const Shards& full) override {
    comm.enqueue_host([this, full] { gather_in(group_, kComm, rank(), full); });
  }
  void enqueue_reduce_scatter(Stream& comm, const Shards& full) override {
    comm.enqueue_host([this, full] { reduce_scatter_now(full); });
  }
  void enqueue_all_reduce(Stream& comm, const Shards& values) override {
    comm.enqueue_host([this, values] { all_reduce_now(values); });
  }

  void all_reduce_now(const Shards& values) {
    const auto shown = group_.meet(kComm, rank(), values.data);
    const std::vector<const std::byte*> parts(shown.begin(), shown.end());
    std::vector<std::byte> sum(values.shard_bytes);
    sum_in_rank_order(values.dtype, parts, values.shard_bytes, sum.data());
    group_.meet(kComm, rank(), nullptr);  // everybody has read what is overwritten now
    std::ranges::copy(sum, values.data);
  }

  void reduce_scatter_now(const Shards& full) {
    const auto shown = group_.meet(kComm, rank(), full.data);
    std::vector<const std::byte*> parts;
    for (std::byte* theirs : shown) {
      parts.push_back(Shards{theirs, full.shard_bytes, full.ranks, full.dtype}.at(rank()));
    }
    sum_in_rank_order(full.dtype, parts, full.shard_bytes, full.at(rank()));
    group_.meet(kComm, rank(), nullptr);
    for (int r = 0; r < full.ranks; ++r) {
      if (r != rank()) std::fill_n(full.at(r), full.shard_bytes, kPoison);
    }
  }

  Group& group_;
};

class ThreadPostbox final : public Postbox {
 public:
  ThreadPostbox(Group& group, int rank) : group_(group), rank_(rank) {}
  void send(const LetterBytes& bytes) override { group_.send({.from = rank_, .bytes = bytes}); }
  [[nodiscard]] std::optional<Letter> receive() override { return group_.receive(rank_); }

 private:
  Group& group_;
  int rank_;
};

class ThreadRanks final : public Ranks {
 public:
  /// `all` is the group of all ranks, of which `group` is a part.
  ThreadRanks(Group& all, Group& group, int rank, std::string host, Ranks* whole = nullptr)
      : Ranks(whole), all_(all), group_(group), rank_(rank), host_(std::move(host)) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return group_.ranks(); }
  [[nodiscard]] std::string_view name() const override { return "threads"; }
  [[nodiscard]] std::string host() const override { return host_; }

  void barrier(Channel channel) override {
    const Meeting meeting(*this, channel);
    group_.meet(room(channel), rank_, nullptr);
  }

  void all_reduce_sum(std::span<double> values, Channel channel) override {
    sum_in_rank_order(all_gather_host(std::as_bytes(values), channel), values);
  }

  void broadcast(std::span<std::byte> bytes, int root, Channel channel) override {
    const Meeting meeting(*this, channel);
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
    const Meeting meeting(*this, channel);
    gather_in(group_, room(channel), rank_, shards);
    return all;
  }

  [[nodiscard]] std::unique_ptr<Ranks> split(int part) override {
    const std::vector<std::byte> all =
        all_gather_host(std::as_bytes(std::span(&part, 1)), Channel::kSubmit);
    std::vector<int> parts(static_cast<std::size_t>(size()));
    std::memcpy(parts.data(), all.data(), all.size());
    const auto members = static_cast<int>(std::ranges::count(parts, part));
    const auto place = static_cast<int>(std::count(parts.begin(), parts.begin() + rank_, part));
    return std::make_unique<ThreadRanks>(all_, group_.part(splits_++, part, members), place, host_,
                                         this);
  }

  [[noreturn]] void abort(int code) override {
    const BackendError error("rank " + std::to_string(rank_) + " aborted with exit code " +
                             std::to_string(code));
    all_.fail(std::make_exception_ptr(error));
    throw error;
  }

  [[nodiscard]] std::unique_ptr<Collectives> make_host_collectives() override {
    return std::make_unique<ThreadCollectives>(group_, rank_);
  }
  [[nodiscard]] std::unique_ptr<Postbox> make_postbox() override {
    return std::make_unique<ThreadPostbox>(group_, rank_);
  }

 private:
  [[nodiscard]] static int room(Channel channel) { return static_cast<int>(channel); }

  Group& all_;
  Group& group_;
  int rank_;
  std::string host_;
  std::int64_t splits_ = 0;
};

}  // namespace

void run_ranks(int ranks, const std::function<void(Ranks&)>& body, int on_host) {
  Group group(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    const int host = on_host == 0 ? 0 : rank / on_host;
    threads.emplace_back([&group, &body, rank, host] {
      ThreadRanks own(group, group, rank, "host" + std::to_string(host));
      try {
        body(own);
      } catch (...) {
        group.fail(std::current_exception());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  group.rethrow_first();
}

}  // namespace strata
