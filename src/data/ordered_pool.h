// Work that several threads do and one thread takes in the order in which it was given out, so that
// nobody can tell from a result how many threads there were.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "strata/base/start_thread.h"

namespace strata {

/// All methods are for the thread that has made it.
template <class Item>
class OrderedPool {
 public:
  /// Does its work on an item; `worker` counts the threads.
  using Work = std::function<void(Item& item, std::size_t worker)>;
  /// Takes an item whose work is done.
  using Take = std::function<void(Item& item)>;

  /// Throws OutOfThreads.
  OrderedPool(std::size_t threads, Work work, Take take)
      : work_(std::move(work)), take_(std::move(take)), most_(2 * threads) {
    try {
      for (std::size_t i = 0; i < threads; ++i) {
        threads_.push_back(start_thread("tokenize " + std::to_string(i), [this, i] { run(i); }));
      }
    } catch (...) {
      end();  // those that have started wait for work, and are joined now
      throw;
    }
  }
  ~OrderedPool() { end(); }
  OrderedPool(const OrderedPool&) = delete;
  OrderedPool& operator=(const OrderedPool&) = delete;

  /// Gives out an item, after it has waited for the oldest if there are many. Throws what the work
  /// on an earlier item has thrown, and what `take` throws.
  void push(std::unique_ptr<Item> item) {
    if (items_.size() == most_) take_oldest();
    items_.push_back(std::make_unique<Job>(std::move(item)));
    {
      const std::scoped_lock lock(mutex_);
      waiting_.push_back(items_.back().get());
    }
    changed_.notify_all();
  }
  /// Waits for all items, and has them taken. Throws as push().
  void drain() {
    while (!items_.empty()) take_oldest();
  }

 private:
  void end() {
    {
      const std::scoped_lock lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    threads_.clear();
  }

  struct Job {
    explicit Job(std::unique_ptr<Item> given) : item(std::move(given)) {}
    std::unique_ptr<Item> item;
    std::exception_ptr error{};
    bool done = false;
  };

  void take_oldest() {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return items_.front()->done; });
    }
    const std::unique_ptr<Job> job = std::move(items_.front());
    items_.pop_front();
    if (job->error) std::rethrow_exception(job->error);
    take_(*job->item);
  }

  void run(std::size_t worker) {
    while (Job* const job = next()) {
      try {
        work_(*job->item, worker);
      } catch (...) {
        job->error = std::current_exception();
      }
      {
        const std::scoped_lock lock(mutex_);
        job->done = true;
      }
      changed_.notify_all();
    }
  }
  /// Waits for a job; returns null at the end, which leaves jobs undone.
  Job* next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ || !waiting_.empty(); });
    if (ended_) return nullptr;
    Job* const job = waiting_.front();
    waiting_.pop_front();
    return job;
  }

  Work work_;
  Take take_;
  std::size_t most_;
  std::deque<std::unique_ptr<Job>> items_{};  ///< in order, of the thread that has made the pool
  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::deque<Job*> waiting_{};
  bool ended_ = false;
  std::vector<std::jthread> threads_{};
};

}  // namespace strata
