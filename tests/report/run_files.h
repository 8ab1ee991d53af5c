// Writes the files of a run folder as a run does: what the tests of reports share.

#pragma once

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>

#include "strata/base/json.h"
#include "support/scratch_folder.h"

namespace strata::test {

using Json = nlohmann::ordered_json;

inline Json start_line() {
  return {{"event", "start"},       {"version", "0.1.0"},           {"commit", "0123456789ab"},
          {"parameters", 1000},     {"device", "a device"},         {"ranks", 2},
          {"peak_tflops", nullptr}, {"device_planned_bytes", 4096}, {"host_planned_bytes", 8192}};
}

inline Json step_line(std::int64_t step, double loss) {
  return {{"event", "step"}, {"step", step},   {"loss", loss},  {"grad_norm", loss / 2},
          {"lr", 1e-3},      {"tokens", 256},  {"step_s", 0.5}, {"tokens_per_s", 512.0},
          {"mfu", nullptr},  {"applied", true}};
}

inline Json eval_line(std::int64_t step, double loss) {
  return {{"event", "eval"}, {"step", step}, {"val_loss", loss}};
}

inline Json sample_line(std::int64_t step, const std::string& prompt, const std::string& text) {
  return {{"step", step},       {"prompt", prompt}, {"text", text}, {"finish_reason", "length"},
          {"prompt_tokens", 1}, {"tokens", 2}};
}

/// Returns the objects as lines.
inline std::string lines(std::initializer_list<Json> objects) {
  std::string text;
  for (const Json& object : objects) text += json_text(object) + "\n";
  return text;
}

}  // namespace strata::test
