// Runs parallel loops on a pool of threads. Loops live on their callers' stacks. Chunks are handed
// out by an atomic counter per loop; one mutex guards the list of loops, and a caller leaves only
// after the last worker has left its loop.

#include "strata/base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "strata/base/log.h"
#include "strata/base/start_thread.h"
#include "strata/base/this_thread.h"

namespace strata {

namespace {

/// One parallel_for under way. It lives on its caller's stack.
struct Loop {
  const std::function<void(std::int64_t, std::int64_t)>& body;
  std::int64_t count = 0;
  std::int64_t grain = 1;
  std::atomic<std::int64_t> next{0};  ///< first index that nobody has taken
  int helpers = 0;                    ///< workers inside; guarded by the pool's mutex
  std::exception_ptr failure;         ///< the first; guarded by the pool's mutex

  [[nodiscard]] bool exhausted() const { return next.load(std::memory_order_relaxed) >= count; }
};

/// Takes chunks until none is left. After an exception no further chunk is begun.
void work_on(Loop& loop, std::mutex& mutex) {
  try {
    for (;;) {
      const std::int64_t begin = loop.next.fetch_add(loop.grain, std::memory_order_relaxed);
      if (begin >= loop.count) return;
      loop.body(begin, std::min(begin + loop.grain, loop.count));
    }
  } catch (...) {
    loop.next.store(loop.count, std::memory_order_relaxed);
    const std::lock_guard lock(mutex);
    if (!loop.failure) loop.failure = std::current_exception();
  }
}

}  // namespace

struct ThreadPool::Impl {
  std::mutex mutex;
  std::condition_variable work_there;
  std::condition_variable helper_left;
  std::vector<Loop*> loops;
  bool stop = false;
  bool refusal_told = false;
  std::vector<std::jthread> workers;  // last, since they use everything above

  /// Returns the loop with chunks left that has the fewest helpers, so callers share the workers
  /// evenly, or null if there is none.
  Loop* neediest() const {
    Loop* best = nullptr;
    for (Loop* loop : loops) {
      if (!loop->exhausted() && (best == nullptr || loop->helpers < best->helpers)) best = loop;
    }
    return best;
  }

  void serve(std::span<const int> core) {
    const std::error_code refused = core.empty() ? std::error_code{} : bind_this_thread(core);
    std::unique_lock lock(mutex);
    if (refused && !std::exchange(refusal_told, true)) {
      log::warn("threads are not bound to cores: {}", refused.message());
    }
    for (;;) {
      Loop* loop = nullptr;
      work_there.wait(lock, [&] { return stop || (loop = neediest()) != nullptr; });
      if (stop) return;
      ++loop->helpers;
      lock.unlock();
      work_on(*loop, mutex);
      lock.lock();
      if (--loop->helpers == 0) helper_left.notify_all();
    }
  }

  void run(Loop& loop, std::int64_t chunks) {
    {
      const std::lock_guard lock(mutex);
      loops.push_back(&loop);
    }
    const auto helpers = std::min(chunks - 1, static_cast<std::int64_t>(workers.size()));
    for (std::int64_t i = 0; i < helpers; ++i) work_there.notify_one();
    work_on(loop, mutex);
    std::unique_lock lock(mutex);
    std::erase(loops, &loop);
    helper_left.wait(lock, [&] { return loop.helpers == 0; });
  }

  void shut_down() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    work_there.notify_all();
    for (std::jthread& worker : workers) worker.join();
  }
};

ThreadPool::ThreadPool(int threads, std::span<const int> cores) : impl_(std::make_unique<Impl>()) {
  const int bindable = static_cast<int>(cores.size());
  const auto unasked = [&] { return cores.empty() ? usable_cores() : bindable; };
  const int wanted = threads > 0 ? threads : unasked();
  try {
    for (int i = 1; i < wanted; ++i) {
      std::vector<int> core;
      if (i < bindable) core.push_back(cores[static_cast<std::size_t>(i)]);
      impl_->workers.push_back(
          start_thread("strata-pool-" + std::to_string(i), [this, core] { impl_->serve(core); }));
    }
  } catch (...) {
    impl_->shut_down();
    throw;
  }
}

ThreadPool::~ThreadPool() { impl_->shut_down(); }

int ThreadPool::threads() const { return static_cast<int>(impl_->workers.size()) + 1; }

void ThreadPool::parallel_for(std::int64_t count, std::int64_t grain,
                              const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (count <= 0) return;
  const std::int64_t step = std::max<std::int64_t>(grain, 1);
  if (count <= step || impl_->workers.empty()) {
    for (std::int64_t begin = 0; begin < count; begin += step) {
      body(begin, std::min(begin + step, count));
    }
    return;
  }
  Loop loop{.body = body, .count = count, .grain = step, .failure = nullptr};
  impl_->run(loop, (count + step - 1) / step);
  if (loop.failure) std::rethrow_exception(loop.failure);
}

}  // namespace strata
