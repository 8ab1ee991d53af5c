// Tests that parallel loops visit every index once, make progress side by side and pass exceptions
// on, and that usable cores follow the affinity mask.

#include "strata/base/thread_pool.h"

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/limited_child.h"
#include "support/patience.h"

using namespace strata;

TEST_CASE("every index is visited once, in chunks of at most the grain") {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    CHECK(pool.threads() == threads);
    for (const std::int64_t count : {0, 1, 2, 7, 64, 1000}) {
      for (const std::int64_t grain : {1, 3, 64, 5000}) {
        CAPTURE(threads, count, grain);
        std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
        std::atomic<std::int64_t> longest{0};
        pool.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
          if (end - begin > longest) longest = end - begin;
          for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
        });
        for (const auto& visit : visits) REQUIRE(visit == 1);
        REQUIRE(longest <= grain);
      }
    }
  }
}

TEST_CASE("a loop is spread over the threads of the pool") {
  ThreadPool pool(3);
  // Each chunk waits for the two others, so three threads must be inside at once.
  std::atomic<int> inside{0};
  std::promise<void> all_there;
  const std::shared_future<void> signal = all_there.get_future().share();
  std::atomic<int> met{0};
  pool.parallel_for(3, 1, [&](std::int64_t, std::int64_t) {
    if (++inside == 3) all_there.set_value();
    if (test::comes_true(signal)) ++met;
  });
  CHECK(met == 3);
}

TEST_CASE("a caller makes progress while another caller's loop holds every worker") {
  ThreadPool pool(2);
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<int> held{0};
  std::thread blocker([&] {
    pool.parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
      ++held;
      released.wait();
    });
  });
  while (held < 2) std::this_thread::yield();
  std::atomic<std::int64_t> sum{0};
  pool.parallel_for(100, 1, [&](std::int64_t begin, std::int64_t) { sum += begin; });
  CHECK(sum == 4950);
  release.set_value();
  blocker.join();
}

TEST_CASE("several callers at once each get their whole loop") {
  ThreadPool pool(3);
  constexpr int kCallers = 4;
  constexpr int kLoops = 200;
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      for (int loop = 0; loop < kLoops; ++loop) {
        const std::int64_t count = 1 + (caller * 37 + loop) % 50;
        std::atomic<std::int64_t> sum{0};
        pool.parallel_for(count, 2, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) sum += i + 1;
        });
        if (sum != count * (count + 1) / 2) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("an exception of a body reaches its caller, and the pool goes on") {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    CHECK_THROWS_WITH(pool.parallel_for(100, 1,
                                        [](std::int64_t begin, std::int64_t) {
                                          if (begin == 5) throw std::runtime_error("chunk 5");
                                        }),
                      "chunk 5");
    std::atomic<int> chunks{0};
    pool.parallel_for(10, 1, [&](std::int64_t, std::int64_t) { ++chunks; });
    CHECK(chunks == 10);
  }
}

TEST_CASE("usable cores respect the affinity mask") {
  cpu_set_t before;
  CPU_ZERO(&before);
  REQUIRE(sched_getaffinity(0, sizeof(before), &before) == 0);
  const int all = usable_cores();
  CHECK(all >= 1);
  CHECK(all <= CPU_COUNT(&before));

  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
  const int alone = usable_cores();
  const int alone_threads = ThreadPool(0).threads();
  REQUIRE(sched_setaffinity(0, sizeof(before), &before) == 0);
  CHECK(alone == 1);
  CHECK(alone_threads == 1);
}

TEST_CASE("a pool whose threads cannot all start says which thread and which limit, and ends") {
  const test::Ended ended = test::with_few_threads([] { const ThreadPool pool(16); });
  if (ended.skipped) return;
  CHECK(ended.exit_code == 3);
  for (const char* part : {"cannot start the thread \"strata-pool-", "ulimit -u", "run.threads"}) {
    CHECK_THAT(ended.text, ContainsSubstring(part));
  }
}
