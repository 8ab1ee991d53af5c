// Decides which figures of runs are drawn, and with which curves.

#include "strata/report/svg_figures.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "report/run_totals.h"
#include "report/svg_plot.h"
#include "strata/base/log.h"
#include "strata/report/curve.h"

namespace strata {

namespace {

/// A figure of a paper is some hundred points wide.
constexpr std::size_t kFigureBuckets = 400;

struct SeriesFigure {
  const char* file;
  const char* label;
  std::vector<double> StepSeries::*values;
  PlotScale scale;
  bool smooth;
  double factor;  ///< to the label's unit
};

constexpr SeriesFigure kSeries[] = {
    {"loss.svg", "loss (nats a token)", &StepSeries::loss, PlotScale::kLinear, true, 1},
    {"lr.svg", "learning rate", &StepSeries::lr, PlotScale::kFromZero, false, 1},
    {"grad_norm.svg", "gradient norm", &StepSeries::grad_norm, PlotScale::kLog, true, 1},
    {"tokens_per_s.svg", "tokens per second", &StepSeries::tokens_per_s, PlotScale::kFromZero, true,
     1},
    {"mfu.svg", "MFU (%)", &StepSeries::mfu, PlotScale::kFromZero, true, 100}};

/// Returns over how many steps a curve of so many is smoothed: what a two-hundredth of a figure's
/// width is.
double smoothing_of(std::size_t steps) { return static_cast<double>(steps) / 200; }

PlotCurve curve_of(const RunHistory& run, const SeriesFigure& figure) {
  std::vector<double> values = run.steps.*figure.values;
  for (double& value : values) value *= figure.factor;
  PlotCurve curve{.name = run.name};
  const std::vector<std::int64_t>& steps = run.steps.step;
  const double smoothing = smoothing_of(values.size());
  if (!figure.smooth || smoothing < 2) {
    curve.curve = thinned(steps, values, kFigureBuckets);
  } else {
    curve.faint = thinned(steps, values, kFigureBuckets);
    curve.curve = thinned(steps, smoothed(values, smoothing), kFigureBuckets);
  }
  return curve;
}

bool has_values(const Plot& plot) {
  return std::ranges::any_of(plot.curves, [](const PlotCurve& curve) {
    return std::ranges::any_of(curve.curve.y, [](double y) { return std::isfinite(y); });
  });
}

/// Dots hide a curve of more points.
constexpr std::size_t kMostDots = 60;

Plot validation_plot(const std::vector<RunHistory>& runs) {
  Plot plot{.y_label = "validation loss (nats a token)", .dots = true};
  for (const RunHistory& run : runs) {
    PlotCurve curve{.name = run.name};
    for (const ValidatedStep& validation : run.validations) {
      curve.curve.x.push_back(validation.step);
      curve.curve.y.push_back(validation.loss);
    }
    plot.dots = plot.dots && curve.curve.x.size() <= kMostDots;
    plot.curves.push_back(std::move(curve));
  }
  return plot;
}

Plot flushed_plot(const std::vector<RunHistory>& runs) {
  Plot plot{.y_label = "flushed to zero in e4m3 (%)", .scale = PlotScale::kFromZero, .dots = true};
  for (const RunHistory& run : runs) {
    Curve flushed = flushed_of(run);
    for (double& share : flushed.y) share *= 100;
    plot.dots = plot.dots && flushed.x.size() <= kMostDots;
    plot.curves.push_back(
        {.name = run.name, .curve = thinned(flushed.x, flushed.y, kFigureBuckets)});
  }
  return plot;
}

/// Returns "2.5 s", "9.79 ms", or microseconds likewise.
std::string seconds_text(double seconds) {
  if (seconds >= 1 || seconds == 0) return fmt::format("{:.3g} s", seconds);
  return seconds >= 1e-3 ? fmt::format("{:.3g} ms", seconds * 1e3)
                         : fmt::format("{:.2g} \u00b5s", seconds * 1e6);
}

BarPlot lanes_plot(const RunHistory& run) {
  BarPlot plot{.whole_label = "busy", .part_label = "exposed"};
  const LaneTimes& times = run.traced.back();
  const auto add = [&](const LaneTime& lane) {
    if (lane.busy_s <= 0) return;
    // Compute is what others are exposed against.
    const double exposed_s = lane.lane == "compute" ? 0 : lane.exposed_s;
    plot.rows.push_back(
        {.name = lane.lane,
         .whole = lane.busy_s,
         .part = exposed_s,
         .text = seconds_text(lane.busy_s) +
                 (exposed_s > 0 ? ", " + seconds_text(exposed_s) + " exposed" : "")});
  };
  for (const LaneTime& lane : times.lanes) add(lane);
  add(times.updates);
  return plot;
}

}  // namespace

std::vector<SvgFigure> svg_figures(const std::vector<RunHistory>& runs) {
  std::vector<SvgFigure> figures;
  for (const SeriesFigure& series : kSeries) {
    Plot plot{.y_label = series.label, .scale = series.scale};
    for (const RunHistory& run : runs) plot.curves.push_back(curve_of(run, series));
    if (has_values(plot)) figures.push_back({.name = series.file, .text = svg_of(plot)});
  }
  if (const Plot plot = validation_plot(runs); has_values(plot)) {
    figures.push_back({.name = "validation_loss.svg", .text = svg_of(plot)});
  }
  if (const Plot plot = flushed_plot(runs); has_values(plot)) {
    figures.push_back({.name = "fp8_flushed.svg", .text = svg_of(plot)});
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].traced.empty()) continue;
    const std::string number = runs.size() > 1 ? "_" + std::to_string(i + 1) : "";
    figures.push_back({.name = "lanes" + number + ".svg", .text = svg_of(lanes_plot(runs[i]))});
  }
  return figures;
}

}  // namespace strata
