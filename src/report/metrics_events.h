// Takes the events of a metrics.jsonl, in their order, into the history of a run.

#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "strata/report/run_history.h"

namespace strata {

class MetricsEvents {
 public:
  explicit MetricsEvents(RunHistory& run) : run_(run) {}

  /// Takes a line. Returns whether it is an event that is what docs/report.md says, or one that a
  /// later strata may write; what is not changes nothing.
  bool take(const nlohmann::json& line);
  /// Returns whether any event of a run was among the lines.
  [[nodiscard]] bool any() const { return any_; }
  /// Returns how many lines the run could not write.
  [[nodiscard]] std::int64_t lost_lines() const { return lost_lines_; }

 private:
  bool take_begin(const nlohmann::json& line, bool resumes);
  bool take_step(const nlohmann::json& line);
  bool take_eval(const nlohmann::json& line);
  bool take_trace(const nlohmann::json& line);
  bool take_fp8(const nlohmann::json& line);
  bool take_checkpoint(const nlohmann::json& line);
  bool take_rollback(const nlohmann::json& line);
  bool take_end(const nlohmann::json& line);
  void forget_steps_from(std::int64_t step);
  void forget_after(std::int64_t step);

  RunHistory& run_;
  bool any_ = false;
  std::int64_t lost_lines_ = 0;
};

}  // namespace strata
