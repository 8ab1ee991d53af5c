// Figures for papers: one SVG file for each chart of a report, on white, with text as text, so that
// a drawing program or LaTeX can take them.

#pragma once

#include <string>
#include <vector>

#include "strata/report/run_history.h"

namespace strata {

struct SvgFigure {
  std::string name{};  ///< of the file, such as "loss.svg"
  std::string text{};
};

/// Returns a figure for each chart that the runs have data for: loss, validation loss, learning
/// rate, gradient norm, tokens per second, MFU, what e4m3 made zero, and the busy and exposed time
/// of lanes.
[[nodiscard]] std::vector<SvgFigure> svg_figures(const std::vector<RunHistory>& runs);

}  // namespace strata
