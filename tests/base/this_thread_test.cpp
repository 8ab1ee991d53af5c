// Tests that threads get the names and cores asked for, as the system itself reports them, also in
// pools.

#include "strata/base/this_thread.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "strata/base/thread_pool.h"
#include "support/catch.h"

using namespace strata;

namespace {

/// What the system says, by its own call. Any thread, so nothing is checked here.
std::vector<int> cores_by_system() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return {};
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

}  // namespace

TEST_CASE("a thread is bound to cores and its creator is not") {
  const std::vector<int> all = cores_by_system();
  CHECK(cores_of_this_thread() == all);
  const std::vector<int> last{all.back()};
  std::vector<int> bound;
  std::thread([&] {
    if (!bind_this_thread(last)) bound = cores_by_system();
  }).join();
  CHECK(bound == last);
  CHECK(cores_by_system() == all);
}

TEST_CASE("binding to no core, or to one that is not there, is refused") {
  CHECK(bind_this_thread({}));
  const std::vector<int> none{5000};
  CHECK(bind_this_thread(none));
}

TEST_CASE("a thread's name is cut to what the system keeps") {
  std::array<char, 64> name{};
  std::thread([&] {
    name_this_thread("strata-thread-of-a-long-name");
    pthread_getname_np(pthread_self(), name.data(), name.size());
  }).join();
  CHECK(std::string(name.data()) == "strata-thread-o");
}

TEST_CASE("each worker of a pool is bound to its core, and the caller stays where it was") {
  const std::vector<int> all = cores_by_system();
  // The caller's, then the workers': as many as there are, one twice.
  const std::vector<int> cores{all.front(), all.back(), all.front()};
  ThreadPool pool(0, cores);
  REQUIRE(pool.threads() == 3);
  const std::thread::id caller = std::this_thread::get_id();
  std::vector<std::vector<int>> seen(3);
  std::atomic<int> inside{0};
  // Each chunk waits for the others, so that three threads take one each.
  pool.parallel_for(3, 1, [&](std::int64_t begin, std::int64_t) {
    ++inside;
    while (inside < 3) std::this_thread::yield();
    auto mine = cores_by_system();
    if (std::this_thread::get_id() == caller) mine.push_back(-1);
    seen[static_cast<std::size_t>(begin)] = mine;
  });
  std::vector<int> callers = all;
  callers.push_back(-1);
  std::vector<std::vector<int>> expected{callers, {all.back()}, {all.front()}};
  std::ranges::sort(expected);
  std::ranges::sort(seen);
  CHECK(seen == expected);
}

TEST_CASE("a pool whose binding is refused works unbound") {
  const std::vector<int> nowhere{0, 5000};
  ThreadPool pool(0, nowhere);
  std::atomic<int> chunks{0};
  pool.parallel_for(10, 1, [&](std::int64_t, std::int64_t) { ++chunks; });
  CHECK(chunks == 10);
}
