// Draws curves with axes as an SVG file.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/report/curve.h"

namespace strata {

/// The width of every plot, in points of CSS; its height depends on what it shows.
inline constexpr double kFigureWidth = 480;

struct PlotCurve {
  std::string name{};  ///< in the legend
  Curve faint{};       ///< drawn thin behind the curve; may be empty
  Curve curve{};
};

enum class PlotScale : std::uint8_t {
  kLinear,
  kFromZero,  ///< linear, with 0 in sight
  kLog,
};

struct Plot {
  std::string y_label{};
  PlotScale scale = PlotScale::kLinear;
  bool dots = false;  ///< at the points of curves
  std::vector<PlotCurve> curves{};
};

/// Returns the plot as an SVG file. Values that are not finite, or not above 0 on a logarithmic
/// scale, are gaps, as are those that no run has: beyond 1e300, or outside of 1e-140 to 1e140 on a
/// logarithmic scale.
[[nodiscard]] std::string svg_of(const Plot& plot);

/// Horizontal bars, of which each is a whole with a part of it drawn full.
struct BarRow {
  std::string name{};
  double whole = 0;
  double part = 0;
  std::string text{};
};
struct BarPlot {
  std::string whole_label{};
  std::string part_label{};
  std::vector<BarRow> rows{};
};
[[nodiscard]] std::string svg_of(const BarPlot& plot);

/// Returns a name as XML, with control characters, which XML does not have, written out.
[[nodiscard]] std::string xml_text(std::string_view text);

/// A tick of an axis.
struct Tick {
  double value = 0;
  std::string text{};
};
/// Returns about `most` ticks at 1, 2 or 5 times a power of ten.
[[nodiscard]] std::vector<Tick> linear_ticks(double low, double high, int most);
/// Returns powers of ten in the range, about 8 at most, with 2 and 5 times them if they are few.
[[nodiscard]] std::vector<Tick> log_ticks(double low, double high);

}  // namespace strata
