#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace strata {

/// Worker threads for data-parallel loops. Several threads may call `parallel_for` at once; each
/// caller works on its own loop, so a loop makes progress even when every worker is busy elsewhere.
/// Which thread takes which chunk is not fixed: a loop body's result must not depend on it.
class ThreadPool {
 public:
  /// `threads` counts the caller: 1 means no workers at all. 0 means one per usable core, or one
  /// for each of `cores`. Worker i, from 1, is bound to cores[i]: cores[0] is the caller's, whom
  /// the pool does not bind. Where the system refuses, workers stay unbound, and the log says so.
  explicit ThreadPool(int threads, std::span<const int> cores = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int threads() const;
  /// Calls body(begin, end) over chunks of at most `grain` that cover [0, count). Blocks until all
  /// are done. The first exception thrown by a body is thrown again here. A body may not call
  /// parallel_for on the same pool.
  void parallel_for(std::int64_t count, std::int64_t grain,
                    const std::function<void(std::int64_t, std::int64_t)>& body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Cores this process may run on (affinity mask and cgroup quota respected), at least 1.
[[nodiscard]] int usable_cores();

}  // namespace strata
