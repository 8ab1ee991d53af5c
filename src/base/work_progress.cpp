// Formats what is known of a piece of work. The amount done is read once, so that the figures of a
// text belong together while other threads count on.

#include "strata/base/work_progress.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/log.h"
#include "strata/base/text.h"

namespace strata {

namespace {

/// Work that is over within so many seconds is not shown.
constexpr double kQuietS = 1.5;
/// Sooner than after so many seconds of a part nobody can say how fast it is.
constexpr double kRateS = 0.5;

std::string amount_text(const WorkAmount& amount, std::uint64_t value) {
  return amount.unit.empty() ? format_bytes(static_cast<std::size_t>(value))
                             : format_count(static_cast<std::int64_t>(value));
}

/// Returns "1.08 GiB/s", "34/s" or, of what is slow, "0.25/s".
std::string rate_text(const WorkAmount& amount, double per_s) {
  constexpr double kWhole = 10;
  if (amount.unit.empty() || per_s >= kWhole) {
    return amount_text(amount, static_cast<std::uint64_t>(per_s)) + "/s";
  }
  return fmt::format("{:.2g}/s", per_s);
}

}  // namespace

WorkProgress::WorkProgress(std::function<double()> clock)
    : clock_(std::move(clock)), made_s_(clock_()) {}

void WorkProgress::begin(std::string what, WorkAmount amount) {
  const std::lock_guard lock(mutex_);
  begun_s_ = clock_();
  if (what_.empty()) series_s_ = begun_s_;
  what_ = std::move(what);
  amount_ = std::move(amount);
  counted_.clear();
  set(0);
}

void WorkProgress::end() { begin({}); }

void WorkProgress::set(std::uint64_t done, std::uint64_t total, std::string counted) {
  const std::lock_guard lock(mutex_);
  amount_.total = total;
  counted_ = std::move(counted);
  set(done);
}

double WorkProgress::seconds() const { return clock_() - made_s_; }

std::string WorkProgress::text() const {
  const std::lock_guard lock(mutex_);
  const double now_s = clock_();
  if (what_.empty() || now_s - series_s_ < kQuietS) return {};
  const double taken_s = now_s - begun_s_;
  std::string text = what_;
  if (!counted_.empty()) text += ": " + counted_;
  if (amount_.total == 0) return text + ", " + format_duration(taken_s);
  const std::uint64_t done = std::min(done_.load(std::memory_order_relaxed), amount_.total);
  text += (counted_.empty() ? ": " : ", ") + amount_text(amount_, done) + "/" +
          amount_text(amount_, amount_.total);
  if (!amount_.unit.empty()) text += " " + amount_.unit;
  if (done == 0 || taken_s < kRateS) return text + ", " + format_duration(taken_s);
  const double per_s = static_cast<double>(done) / taken_s;
  return text + ", " + rate_text(amount_, per_s) + ", " +
         format_duration(static_cast<double>(amount_.total - done) / per_s) + " left";
}

}  // namespace strata
