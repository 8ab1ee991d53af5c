// Worker threads for data-parallel loops on the host: CPU kernels, AdamW, batches and the first
// touch of host memory. A backend owns one pool and lends it by reference. The pool decides only
// who computes a chunk, so results must not depend on the number of threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>

namespace strata {

/// A fixed set of worker threads, joined by the destructor. Several threads may call `parallel_for`
/// at once; each caller works on its own loop, so a loop makes progress even when every worker is
/// busy elsewhere. Which thread takes which chunk is not fixed: a loop body's result must not
/// depend on it.
class ThreadPool {
 public:
  /// `threads` counts the caller: 1 means no workers at all, and 0 means one thread for each of
  /// `cores`, or for each usable core if there are no `cores`. Worker i, from 1, is bound to
  /// cores[i]: cores[0] is the caller's, whom the pool does not bind. Where the system refuses,
  /// workers stay unbound, and the log says so. Throws OutOfThreads if a thread cannot be started.
  explicit ThreadPool(int threads, std::span<const int> cores = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Returns the number of threads, the caller included.
  [[nodiscard]] int threads() const;
  /// Calls body(begin, end) over chunks of at most `grain` that cover [0, count). Blocks until all
  /// are done. The first exception thrown by a body is thrown again here, and chunks that have not
  /// begun by then are left out. A body may not call parallel_for on the same pool.
  void parallel_for(std::int64_t count, std::int64_t grain,
                    const std::function<void(std::int64_t, std::int64_t)>& body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns how many cores the calling thread may use, at least 1: those of its affinity mask, or
/// fewer if the quota of a control group allows fewer (rounded up).
[[nodiscard]] int usable_cores();
/// Returns how many cores' time the quotas of this process's control groups grant it, infinity if
/// none limits it. `root` stands for "/" in tests.
[[nodiscard]] double cores_by_quota(const std::filesystem::path& root = "/");

}  // namespace strata
