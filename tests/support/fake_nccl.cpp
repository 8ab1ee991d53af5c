// Implements the fake NCCL. Ranks meet by connection and number of call: the last of a meeting does
// the work of all while the others wait, and what one rank calls another collective for never
// becomes a meeting.
#include "support/fake_nccl.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "strata/device/stream.h"
#include "support/patience.h"

namespace strata {

namespace {

enum class Kind { kConnect, kGather, kReduceScatter, kAllReduce };

/// What ranks must have in common to meet: connection, number of call, kind, elements and type.
using Place = std::tuple<std::uint64_t, std::uint64_t, Kind, std::size_t, NcclType>;

/// One rank's part in a call.
struct Part {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
};

struct Connection {
  std::uint64_t number = 0;  ///< the same on all ranks of it
  int rank = 0;
  int ranks = 1;
  std::uint64_t calls = 0;
};

std::size_t bytes_of(NcclType type) {
  return type == NcclType::kU8 ? 1 : type == NcclType::kF32 ? 4 : 8;
}

/// Adds the elements [begin, begin + count) of all parts, last rank first: NCCL promises no order.
template <class T>
std::vector<T> sum(const std::vector<Part>& parts, std::size_t begin, std::size_t count) {
  std::vector<T> total(count);
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    const T* const values = reinterpret_cast<const T*>(part->from) + begin;
    T* const sums = total.data();
    for (std::size_t i = 0; i < count; ++i) sums[i] += values[i];
  }
  return total;
}

template <class T>
void reduce(const std::vector<Part>& parts, std::size_t count, bool scatter) {
  std::vector<std::vector<T>> sums;
  for (std::size_t r = 0; r < parts.size(); ++r) {
    sums.push_back(sum<T>(parts, scatter ? r * count : 0, count));
  }
  for (std::size_t r = 0; r < parts.size(); ++r) {
    std::memcpy(parts[r].to, sums[r].data(), count * sizeof(T));
  }
}

void gather(const std::vector<Part>& parts, std::size_t bytes) {
  for (const Part& receiver : parts) {
    for (std::size_t r = 0; r < parts.size(); ++r) {
      std::memmove(receiver.to + r * bytes, parts[r].from, bytes);
    }
  }
}

void work(const Place& place, const std::vector<Part>& parts) {
  const auto [connection, call, kind, count, type] = place;
  if (kind == Kind::kGather) gather(parts, count * bytes_of(type));
  if (kind != Kind::kReduceScatter && kind != Kind::kAllReduce) return;
  const bool scatter = kind == Kind::kReduceScatter;
  type == NcclType::kF32 ? reduce<float>(parts, count, scatter)
                         : reduce<double>(parts, count, scatter);
}

}  // namespace

class FakeNccl::State {
 public:
  NcclResult begin(NcclId& id) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t number = ++connections_;
    std::memcpy(id.bytes.data(), &number, sizeof number);
    return NcclResult::kSuccess;
  }

  NcclResult connect(NcclComm* comm, int ranks, const NcclId& id, int rank) {
    auto connection = std::make_unique<Connection>();
    std::memcpy(&connection->number, id.bytes.data(), sizeof connection->number);
    connection->rank = rank;
    connection->ranks = ranks;
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = refuses_.find(rank); found != refuses_.end()) {
        last_error_ = found->second;
        return NcclResult::kInvalidUsage;
      }
      ++open_;
    }
    meet(place_of(*connection, Kind::kConnect, 0, NcclType::kU8), *connection, {}, false);
    *comm = connection.release();
    return NcclResult::kSuccess;
  }

  NcclResult abort(NcclComm comm) {
    const std::unique_ptr<Connection> connection(static_cast<Connection*>(comm));
    const std::lock_guard lock(mutex_);
    ends_[connection->number].aborted.insert(connection->rank);
    changed_.notify_all();
    --open_;
    ++aborted_;
    return NcclResult::kSuccess;
  }

  NcclResult destroy(NcclComm comm) {
    const std::unique_ptr<Connection> connection(static_cast<Connection*>(comm));
    std::unique_lock lock(mutex_);
    End& end = ends_[connection->number];
    ++end.closing;
    changed_.notify_all();
    const auto may_go = [&] {
      return end.closing == connection->ranks || !end.aborted.empty() || released_;
    };
    const std::chrono::duration<double> patience(test::kPatienceS);
    if (!changed_.wait_for(lock, patience, may_go)) hung_ = true;
    --open_;
    return NcclResult::kSuccess;
  }

  NcclResult error_of(NcclComm comm, NcclResult& error) {
    const std::lock_guard lock(mutex_);
    const auto found = fails_.find(static_cast<Connection*>(comm)->rank);
    error = found == fails_.end() ? NcclResult::kSuccess : NcclResult::kInvalidUsage;
    if (found != fails_.end()) last_error_ = found->second;
    return NcclResult::kSuccess;
  }

  NcclResult submit(Kind kind, Part part, std::size_t count, NcclType type, NcclComm comm,
                    NcclStream stream) {
    Connection& connection = *static_cast<Connection*>(comm);
    const Place place = place_of(connection, kind, count, type);
    bool hangs = false;
    {
      const std::lock_guard lock(mutex_);
      hangs = hangs_.erase(connection.rank) > 0;
    }
    static_cast<Stream*>(stream)->enqueue_host(
        [this, place, connection, part, hangs] { meet(place, connection, part, hangs); });
    return NcclResult::kSuccess;
  }

  const char* last_error() {
    const std::lock_guard lock(mutex_);
    return last_error_.c_str();
  }

  template <class Change>
  void change(const Change& change) {
    const std::lock_guard lock(mutex_);
    change(*this);
    changed_.notify_all();
  }

  std::map<int, std::string> refuses_;  ///< to connect, by rank
  std::map<int, std::string> fails_;    ///< asynchronously, by rank
  std::set<int> hangs_;                 ///< ranks whose next collective does
  bool released_ = false;
  bool hung_ = false;  ///< somebody has waited for the others to close for longer than a test may
  int open_ = 0;
  int aborted_ = 0;

 private:
  /// How a connection ends.
  struct End {
    int closing = 0;          ///< ranks that wait for the others
    std::set<int> aborted{};  ///< ranks that do not, and whose collectives end as they are
  };
  struct Meeting {
    std::map<int, Part> parts;  ///< by rank
    bool done = false;
    int left = 0;  ///< ranks that have gone on
  };

  static Place place_of(Connection& connection, Kind kind, std::size_t count, NcclType type) {
    return {connection.number, connection.calls++, kind, count, type};
  }

  /// Blocks until all ranks of the connection have come, or for ever.
  void meet(const Place& place, const Connection& connection, Part part, bool hangs) {
    std::unique_lock lock(mutex_);
    Meeting& meeting = meetings_[place];
    if (!hangs) meeting.parts[connection.rank] = part;
    if (static_cast<int>(meeting.parts.size()) == connection.ranks) {
      std::vector<Part> parts;
      for (const auto& [rank, each] : meeting.parts) parts.push_back(each);
      work(place, parts);
      meeting.done = true;
      changed_.notify_all();
    }
    const std::set<int>& aborted = ends_[connection.number].aborted;
    changed_.wait(lock,
                  [&] { return meeting.done || released_ || aborted.contains(connection.rank); });
    if (!meeting.done) {
      meeting.parts.erase(connection.rank);  // who still comes finds no memory that is gone
      throw BackendError("what waited for ever was ended");
    }
    if (++meeting.left == connection.ranks) meetings_.erase(place);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t connections_ = 0;
  std::map<Place, Meeting> meetings_;
  std::map<std::uint64_t, End> ends_;  ///< by the number of the connection
  std::string last_error_;
};

FakeNccl::FakeNccl() : state_(std::make_unique<State>()) {}
FakeNccl::~FakeNccl() = default;

NcclApi FakeNccl::api() {
  State& state = *state_;
  NcclApi api;
  api.get_version = [](int* version) {
    *version = 22800;
    return NcclResult::kSuccess;
  };
  api.get_unique_id = [&state](NcclId* id) { return state.begin(*id); };
  api.comm_init_rank = [&state](NcclComm* comm, int ranks, NcclId id, int rank) {
    return state.connect(comm, ranks, id, rank);
  };
  api.comm_destroy = [&state](NcclComm comm) { return state.destroy(comm); };
  api.comm_abort = [&state](NcclComm comm) { return state.abort(comm); };
  api.comm_get_async_error = [&state](NcclComm comm, NcclResult* error) {
    return state.error_of(comm, *error);
  };
  api.get_error_string = [](NcclResult) { return "invalid usage"; };
  api.get_last_error = [&state](NcclComm) { return state.last_error(); };
  const auto part = [](const void* from, void* to) {
    return Part{static_cast<const std::byte*>(from), static_cast<std::byte*>(to)};
  };
  api.all_gather = [&state, part](const void* from, void* to, std::size_t count, NcclType type,
                                  NcclComm comm, NcclStream stream) {
    return state.submit(Kind::kGather, part(from, to), count, type, comm, stream);
  };
  api.reduce_scatter = [&state, part](const void* from, void* to, std::size_t count, NcclType type,
                                      NcclSum, NcclComm comm, NcclStream stream) {
    return state.submit(Kind::kReduceScatter, part(from, to), count, type, comm, stream);
  };
  api.all_reduce = [&state, part](const void* from, void* to, std::size_t count, NcclType type,
                                  NcclSum, NcclComm comm, NcclStream stream) {
    return state.submit(Kind::kAllReduce, part(from, to), count, type, comm, stream);
  };
  return api;
}

void FakeNccl::fail_connecting(int rank, std::string text) {
  state_->change([&](State& state) { state.refuses_[rank] = std::move(text); });
}
void FakeNccl::fail_later(int rank, std::string text) {
  state_->change([&](State& state) { state.fails_[rank] = std::move(text); });
}
void FakeNccl::hang_next(int rank) {
  state_->change([&](State& state) { state.hangs_.insert(rank); });
}
void FakeNccl::release() {
  state_->change([](State& state) { state.released_ = true; });
}
bool FakeNccl::hung() const {
  bool hung = false;
  state_->change([&](State& state) { hung = state.hung_; });
  return hung;
}
int FakeNccl::open() const {
  int open = 0;
  state_->change([&](State& state) { open = state.open_; });
  return open;
}
int FakeNccl::aborted() const {
  int aborted = 0;
  state_->change([&](State& state) { aborted = state.aborted_; });
  return aborted;
}

}  // namespace strata
