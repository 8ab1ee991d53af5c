// Tests that the death of a rank is noticed by both of its neighbours, and that one that leaves is
// not taken for dead. Ranks are processes here, which share a page of memory.
#include "comm/lifeline.h"

#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <functional>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/patience.h"

namespace strata {

namespace {

constexpr int kRanks = 3;
constexpr std::size_t kMostBytes = 256;  // that a rank shows the others at a time
constexpr int kMostTimes = 4;

/// What the ranks share.
struct Page {
  std::array<std::atomic<int>, kMostTimes> shown{};
  std::atomic<int> connected{0};
  std::atomic<bool> ended{false};                           ///< rank 1 has done what it was to do
  std::array<std::atomic<int>, kRanks> missed{-1, -1, -1};  ///< by each rank; -1: none
  std::array<std::array<std::array<std::byte, kMostBytes>, kRanks>, kMostTimes> bytes{};

  /// Returns what all ranks show at that time, which each counts for itself.
  std::vector<std::byte> gather(int rank, int time, std::span<const std::byte> own) {
    const auto at = static_cast<std::size_t>(time);
    REQUIRE(own.size() <= kMostBytes);
    std::copy(own.begin(), own.end(), bytes.at(at)[static_cast<std::size_t>(rank)].begin());
    ++shown[at];
    REQUIRE(test::comes_true([&] { return shown[at] == kRanks; }));
    std::vector<std::byte> all;
    for (const auto& theirs : bytes[at]) {
      all.insert(all.end(), theirs.begin(),
                 theirs.begin() + static_cast<std::ptrdiff_t>(own.size()));
    }
    return all;
  }
};

/// Looks for a death until one is seen, or for some moments after rank 1 has left.
void watch(Page& page, int rank, Lifeline& lifeline) {
  std::atomic<int>& missed = page.missed[static_cast<std::size_t>(rank)];
  // A good-bye that is read, or is still on its way, is no death, however many moments there are.
  int moments_left = 50;
  static_cast<void>(test::comes_true([&] {
    missed = lifeline.gone().value_or(-1);
    return missed >= 0 || (page.ended && --moments_left == 0);
  }));
}

/// Returns whom ranks 0 and 2 of three miss after rank 1 has done this to its lifeline.
std::array<int, 2> missed_after(const std::function<void(std::optional<Lifeline>&)>& end) {
  void* const memory =
      ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  Page& page = *new (memory) Page;
  const auto live = [&](int rank, const std::function<void(std::optional<Lifeline>&)>& then) {
    std::optional<Lifeline> lifeline(std::in_place, rank, kRanks,
                                     [&, time = 0](std::span<const std::byte> own) mutable {
                                       return page.gather(rank, time++, own);
                                     });
    // A constructor gives up after a while, and only who is connected is missed.
    REQUIRE(test::comes_true([&] { return lifeline->connected(); }));
    ++page.connected;
    REQUIRE(test::comes_true([&] { return page.connected == kRanks; }));
    then(lifeline);
  };
  const auto watcher = [&](int rank) {
    return [&page, rank](std::optional<Lifeline>& lifeline) { watch(page, rank, *lifeline); };
  };
  std::array<pid_t, 2> children{};
  for (const int rank : {1, 2}) {
    pid_t& child = children[static_cast<std::size_t>(rank - 1)];
    child = ::fork();
    if (child != 0) continue;
    try {
      live(rank, rank == 1 ? end : watcher(rank));
    } catch (...) {  // what was required and did not come; rank 0 misses it too
      ::_exit(1);
    }
    if (rank == 1) page.ended = true;
    ::_exit(0);
  }
  live(0, watcher(0));
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  const std::array<int, 2> missed{page.missed[0], page.missed[2]};
  ::munmap(memory, sizeof(Page));
  return missed;
}

/// Returns the addresses at which this process listens.
std::set<in_addr_t> listening_at() {
  std::set<in_addr_t> addresses;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename());
    int listens = 0;
    socklen_t size = sizeof listens;
    sockaddr_in address{};
    socklen_t length = sizeof address;
    if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0 ||
        ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
      continue;
    }
    if (address.sin_family == AF_INET) addresses.insert(ntohl(address.sin_addr.s_addr));
  }
  return addresses;
}

/// Returns where a rank listens that is told by a made-up second one where that is: this rank's own
/// word with the first byte changed by `change`.
std::set<in_addr_t> listening_beside(unsigned char change) {
  const Lifeline lifeline(0, 2, [&](std::span<const std::byte> own) {
    std::vector<std::byte> all(own.begin(), own.end());
    all.insert(all.end(), own.begin(), own.end());
    all[own.size()] ^= std::byte{change};
    return all;
  });
  return listening_at();
}

constexpr std::array kBothMiss1{1, 1};
constexpr std::array kNobody{-1, -1};

}  // namespace

TEST_CASE("a rank whose process is killed is missed by both neighbours", "[one_thread]") {
  CHECK(missed_after([](std::optional<Lifeline>&) { ::raise(SIGKILL); }) == kBothMiss1);
}

TEST_CASE("a rank whose process exits without a good-bye is missed", "[one_thread]") {
  CHECK(missed_after([](std::optional<Lifeline>&) { ::_exit(1); }) == kBothMiss1);
}

TEST_CASE("a rank whose lifeline has gone before its process is not missed", "[one_thread]") {
  CHECK(missed_after([](std::optional<Lifeline>& lifeline) { lifeline.reset(); }) == kNobody);
}

TEST_CASE("ranks of one machine listen at its loopback address, others at all") {
  const std::set<in_addr_t> before = listening_at();
  REQUIRE(before.empty());
  CHECK(listening_beside(0) == std::set<in_addr_t>{INADDR_LOOPBACK});
  CHECK(listening_beside(1) == std::set<in_addr_t>{INADDR_ANY});
}

TEST_CASE("a rank that is alone has nobody to miss, and listens to nobody") {
  Lifeline lifeline(0, 1, [](std::span<const std::byte> own) {
    return std::vector<std::byte>(own.begin(), own.end());
  });
  CHECK_FALSE(lifeline.gone());
  CHECK(listening_at().empty());
}

}  // namespace strata
