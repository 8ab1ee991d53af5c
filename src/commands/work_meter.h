// Shows how far work is that takes minutes: a line below the log on a terminal, else a line of the
// log now and then.
#pragma once

#include <cstddef>
#include <string>

#include "strata/base/process.h"

namespace strata {

class WorkMeter {
 public:
  explicit WorkMeter(std::string work) : work_(std::move(work)) {}
  ~WorkMeter();  ///< takes the line away, also where an error ends the work
  WorkMeter(const WorkMeter&) = delete;
  WorkMeter& operator=(const WorkMeter&) = delete;

  /// Shows "work 12/345 files 1.0 MiB/2.0 MiB eta 3s", where `counted` is "12/345 files" or empty.
  /// It may be called often: mostly it returns at once.
  void show(std::size_t bytes_done, std::size_t bytes, const std::string& counted = "");
  /// Shows work of which nobody knows how long it takes.
  void show(const std::string& text);
  [[nodiscard]] double seconds() const { return steady_seconds() - begin_s_; }

 private:
  [[nodiscard]] bool is_due();
  void print(const std::string& text);

  std::string work_;
  double begin_s_ = steady_seconds();
  double shown_s_ = steady_seconds();
  double logged_s_ = steady_seconds();
};

}  // namespace strata
