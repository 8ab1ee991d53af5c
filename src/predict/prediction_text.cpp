// Says in text what is predicted of a step, as `strata plan` prints it.

#include <cstdint>
#include <string>

#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/predict/prediction.h"

namespace strata {

std::string Prediction::to_string() const {
  if (!unknown.empty()) return "predicted step: unknown: " + unknown + "\n";
  std::string text =
      fmt::format("predicted for {}\npredicted step{}: {}{:.3f} s, {}{} tokens/s", rates,
                  reduced ? " (from a reduced schedule)" : "", masked ? "at most " : "", step_s,
                  masked ? "at least " : "", format_count(static_cast<std::int64_t>(tokens_per_s)));
  if (ranks > 1) {
    text +=
        fmt::format(" ({} a rank)", format_count(static_cast<std::int64_t>(tokens_per_s / ranks)));
  }
  if (mfu) text += fmt::format(", MFU {:.1f} %", 100 * *mfu);
  text += fmt::format("; the first and the last of a run take {:.3f} s more\n  bound by", once_s);
  constexpr double kWorthALine = 0.005;
  for (const Part& part : critical) {
    if (part.share >= kWorthALine) {
      text += fmt::format(" {} {:.0f} %,", part.name, 100 * part.share);
    }
  }
  text.back() = '\n';
  for (const LaneReport& lane : lanes) {
    if (lane.busy_s == 0) continue;
    text += fmt::format("  lane {:<15} busy {:.3f} s, exposed {:.3f} s\n", lane.lane, lane.busy_s,
                        lane.exposed_s);
  }
  if (ranks > 1) {
    text +=
        "steps of two and four GPUs of one host were compared with their predictions, those of "
        "more GPUs or hosts were not\n";
  }
  if (masked) {
    text +=
        "data.document_mask: the documents decide how much of attention is left, which is counted "
        "whole\n";
  }
  if (estimated) {
    text += "nobody has measured strata on this GPU";
    if (held_to_tflops > 0) {
      text += fmt::format(
          "; held to the {:.0f} TFLOP/s of the best program that is published of it or of the "
          "nearest card",
          held_to_tflops);
    }
    text += "\n";
  }
  return warning.empty() ? text : text + warning + "\n";
}

}  // namespace strata
