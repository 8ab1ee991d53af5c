// Reads from the metrics what a run had last. A save gives a run a checkpoint, and so does a start
// from one; after a rollback it may have none.

#include "strata/report/past_run.h"

#include <nlohmann/json.hpp>

#include "report/json_lines.h"

namespace strata {

PastRun read_past_run(const std::filesystem::path& metrics) {
  PastRun past;
  const ReadLines read = read_json_lines(metrics, [&](const nlohmann::json& line) {
    const std::string event = text_of(line, "event");
    if (event == "step") past.has_lines = true;
    if (event == "start" || event == "rollback") past.checkpoint.clear();
    if (event == "resume") past.checkpoint = text_of(line, "checkpoint");
    if (event == "checkpoint" && truth_of(line, "saved", false) &&
        !truth_of(line, "weights_alone", false)) {
      past.checkpoint = "a checkpoint of step " + std::to_string(step_of(line).value_or(0));
    }
    return true;
  });
  past.has_lines = past.has_lines || read.damaged_count > 0;
  return past;
}

}  // namespace strata
