// How far work is that may take long: what is being done, how much of how much, and since when.
// Whoever does the work counts here, on any thread, and whoever shows it asks for a text
// (strata/base/work_meter.h). Nothing here prints, and a count costs one atomic addition.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "strata/base/process.h"

namespace strata {

/// How much there is to do, and of what.
struct WorkAmount {
  std::uint64_t total = 0;  ///< 0: nobody knows
  std::string unit{};       ///< "files", "tokens"; empty: bytes
};

class WorkProgress {
 public:
  /// `clock` returns seconds that never go back.
  explicit WorkProgress(std::function<double()> clock = steady_seconds);
  WorkProgress(const WorkProgress&) = delete;
  WorkProgress& operator=(const WorkProgress&) = delete;

  /// Begins a part of the work, of which nothing is done yet: "reading weights". What was begun
  /// before is over. Several threads may count meanwhile, but one alone begins.
  void begin(std::string what, WorkAmount amount = {});
  /// Says that the part which was begun is over, and that none follows it yet.
  void end();
  /// Says that so much more is done.
  void add(std::uint64_t amount) { done_.fetch_add(amount, std::memory_order_relaxed); }
  /// Says how much is done, for work that counts itself.
  void set(std::uint64_t done) { done_.store(done, std::memory_order_relaxed); }
  /// Says how much is done of how much, and what else was counted: "12/345 files", or nothing.
  void set(std::uint64_t done, std::uint64_t total, std::string counted = {});

  /// Returns "reading weights: 3.25 GiB/12.60 GiB, 1.08 GiB/s, 9s left", or without a total,
  /// "starting the device, 3s". The rate is the mean since the part began. The text is empty where
  /// nothing is under way, and in the first second and a half of parts that follow each other:
  /// short work is not worth a word.
  [[nodiscard]] std::string text() const;
  /// Returns the seconds since it was made.
  [[nodiscard]] double seconds() const;

 private:
  std::function<double()> clock_;
  const double made_s_;
  std::atomic<std::uint64_t> done_{0};
  mutable std::mutex mutex_;  ///< guards what follows
  std::string what_;
  WorkAmount amount_;
  std::string counted_;
  double begun_s_ = 0;   ///< the part
  double series_s_ = 0;  ///< the first of the parts that followed each other
};

/// Counts where somebody may want to know: `progress` may be null.
inline void count_work(WorkProgress* progress, std::uint64_t amount) {
  if (progress != nullptr) progress->add(amount);
}

}  // namespace strata
