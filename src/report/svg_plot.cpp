// Writes plots as SVG. Figures are as wide as a column of a paper and have no style sheet, since
// programs that take SVG read attributes and not all of CSS.

#include "report/svg_plot.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>

#include "strata/base/text.h"

namespace strata {

namespace {

constexpr double kWidth = kFigureWidth;
constexpr double kHeight = 300;
constexpr double kLeft = 62;
constexpr double kRight = kWidth - 12;
constexpr double kTop = 14;
constexpr double kBottom = kHeight - 44;
constexpr double kLegendRow = 17;
constexpr std::string_view kGrey = "#444444";
constexpr std::string_view kGrid = "#e2e2e2";
/// Colours that differ for people who do not see red and green as different (Okabe and Ito).
constexpr std::array<std::string_view, 8> kColors{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                  "#a67c00", "#56b4e9", "#555b63", "#7a4fb5"};
constexpr std::array<std::string_view, 3> kDashes{"", "6 3", "2 2.5"};

/// Between which values axes reach: their differences, and on logarithmic axes their quotients, are
/// finite.
constexpr double kMost = 1e300;
constexpr double kLeastOfLog = 1e-140;
constexpr double kMostOfLog = 1e140;

/// Returns a number with up to 2 digits behind the point, as places in a drawing have it.
std::string place(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(),
                                 std::round(value * 100) / 100, std::chars_format::fixed, 2);
  std::string result(text.data(), end.ptr);
  result.erase(result.find_last_not_of('0') + 1);
  if (result.ends_with('.')) result.pop_back();
  return result == "-0" ? "0" : result;
}

/// Returns 12000 as "12k", 0.25 as "0.25" and 0.0003 as "3e-4".
std::string number_text(double value) {
  constexpr std::array<std::pair<double, std::string_view>, 4> kUnits{
      {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  std::string unit;
  if (std::abs(value) >= 1e4) {
    for (const auto& [size, name] : kUnits) {
      if (std::abs(value) < size) continue;
      value /= size;
      unit = name;
      break;
    }
  }
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 4);
  std::string result(text.data(), end.ptr);
  if (const std::size_t power = result.find("e-0"); power != std::string::npos) {
    result.erase(power + 2, 1);
  }
  return result + unit;
}

std::string attribute(std::string_view name, std::string_view value) {
  return " " + std::string(name) + "=\"" + xml_text(value) + "\"";
}

std::string line(double x0, double y0, double x1, double y1, std::string_view color) {
  return "<line" + attribute("x1", place(x0)) + attribute("y1", place(y0)) +
         attribute("x2", place(x1)) + attribute("y2", place(y1)) + attribute("stroke", color) +
         "/>\n";
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view text) {
  return "<text" + attribute("x", place(x)) + attribute("y", place(y)) +
         attribute("text-anchor", anchor) + attribute("fill", kGrey) + ">" + xml_text(text) +
         "</text>\n";
}

std::string beginning(double height) {
  const std::string size = place(kWidth) + " " + place(height);
  return R"(<svg xmlns="http://www.w3.org/2000/svg")" + attribute("viewBox", "0 0 " + size) +
         attribute("width", place(kWidth)) + attribute("height", place(height)) +
         R"( font-family="Helvetica, Arial, sans-serif" font-size="12">)"
         "\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

/// Where values lie in the drawing.
class Frame {
 public:
  explicit Frame(const Plot& plot) : log_(plot.scale == PlotScale::kLog) {
    for (const PlotCurve& curve : plot.curves) {
      for (const Curve* part : {&curve.faint, &curve.curve}) {
        for (std::size_t i = 0; i < part->x.size(); ++i) {
          if (!shows(part->y[i])) continue;
          x_.add(static_cast<double>(part->x[i]));
          y_.add(part->y[i]);
        }
      }
    }
    if (plot.scale == PlotScale::kFromZero) y_.add(0);
    if (y_.low > y_.high) {
      x_ = {0, 1};
      y_ = {log_ ? 0.1 : 0, 1};
    }
    if (x_.low == x_.high) x_ = {x_.low - 1, x_.high + 1};
    if (log_) {
      const double more = std::max(1.02, std::pow(y_.high / y_.low, 0.04));
      y_ = {y_.low / more, y_.high * more};
    } else {
      const double wide = y_.high > y_.low ? y_.high - y_.low : std::max(std::abs(y_.high), 1.0);
      const bool from_zero = plot.scale == PlotScale::kFromZero && y_.low == 0;
      y_ = {from_zero ? 0 : y_.low - 0.04 * wide, y_.high + 0.04 * wide};
    }
  }

  [[nodiscard]] bool shows(double y) const {
    return log_ ? y >= kLeastOfLog && y <= kMostOfLog : std::abs(y) <= kMost;
  }
  [[nodiscard]] double x(double value) const {
    return kLeft + (value - x_.low) / (x_.high - x_.low) * (kRight - kLeft);
  }
  [[nodiscard]] double y(double value) const {
    const double share = log_ ? std::log(value / y_.low) / std::log(y_.high / y_.low)
                              : (value - y_.low) / (y_.high - y_.low);
    return kBottom - share * (kBottom - kTop);
  }
  [[nodiscard]] std::vector<Tick> x_ticks() const { return linear_ticks(x_.low, x_.high, 6); }
  [[nodiscard]] std::vector<Tick> y_ticks() const {
    return log_ ? log_ticks(y_.low, y_.high) : linear_ticks(y_.low, y_.high, 5);
  }

 private:
  bool log_;
  Range x_;
  Range y_;
};

std::string path(const Frame& frame, const Curve& curve, std::string_view more) {
  std::string steps;
  bool down = false;
  for (std::size_t i = 0; i < curve.x.size(); ++i) {
    if (!frame.shows(curve.y[i])) {
      down = false;
      continue;
    }
    steps += (down ? "L" : "M") + place(frame.x(static_cast<double>(curve.x[i]))) + " " +
             place(frame.y(curve.y[i]));
    down = true;
  }
  if (steps.empty()) return "";
  return "<path" + attribute("d", steps) + R"( fill="none" stroke-linejoin="round")" +
         std::string(more) + "/>\n";
}

std::string dots(const Frame& frame, const Curve& curve, std::string_view color) {
  std::string text;
  for (std::size_t i = 0; i < curve.x.size(); ++i) {
    if (!frame.shows(curve.y[i])) continue;
    text += "<circle" + attribute("cx", place(frame.x(static_cast<double>(curve.x[i])))) +
            attribute("cy", place(frame.y(curve.y[i]))) + attribute("r", "2.5") +
            attribute("fill", color) + "/>\n";
  }
  return text;
}

std::string axes(const Frame& frame, const std::string& y_label) {
  std::string text;
  for (const Tick& tick : frame.y_ticks()) {
    text += line(kLeft, frame.y(tick.value), kRight, frame.y(tick.value), kGrid);
    text += text_at(kLeft - 7, frame.y(tick.value) + 4, "end", tick.text);
  }
  text += line(kLeft, kBottom, kRight, kBottom, kGrey);
  for (const Tick& tick : frame.x_ticks()) {
    text += line(frame.x(tick.value), kBottom, frame.x(tick.value), kBottom + 4, kGrey);
    text += text_at(frame.x(tick.value), kBottom + 18, "middle", tick.text);
  }
  text += text_at((kLeft + kRight) / 2, kBottom + 36, "middle", "step");
  const std::string middle = place((kTop + kBottom) / 2);
  return text + "<text" + attribute("transform", "translate(14 " + middle + ") rotate(-90)") +
         R"( text-anchor="middle")" + attribute("fill", kGrey) + ">" + xml_text(y_label) +
         "</text>\n";
}

}  // namespace

std::string xml_text(std::string_view text) {
  std::string xml;
  for (const char c : printable_name(text)) {
    switch (c) {
      case '&': xml += "&amp;"; break;
      case '<': xml += "&lt;"; break;
      case '>': xml += "&gt;"; break;
      case '"': xml += "&quot;"; break;
      default: xml += c;
    }
  }
  return xml;
}

std::vector<Tick> linear_ticks(double low, double high, int most) {
  const double raw = (high - low) / most;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  const double lead = raw / power;
  const double step = power * (lead <= 1.5 ? 1 : lead <= 3 ? 2 : lead <= 7 ? 5 : 10);
  if (!(step > 0)) return {};  // the range is too narrow for numbers between its ends
  std::vector<Tick> ticks;
  const auto last = static_cast<std::int64_t>(std::floor(high / step + 1e-9));
  for (auto i = static_cast<std::int64_t>(std::ceil(low / step - 1e-9)); i <= last; ++i) {
    const double value = static_cast<double>(i) * step;
    ticks.push_back({.value = value, .text = number_text(value)});
  }
  return ticks;
}

std::vector<Tick> log_ticks(double low, double high) {
  std::vector<Tick> ticks;
  const double decades = std::log10(high / low);
  const bool few = decades < 2.5;
  const int every = std::max(1, static_cast<int>(std::ceil(decades / 8)));
  const int last = static_cast<int>(std::floor(std::log10(high)));
  for (int power = static_cast<int>(std::floor(std::log10(low))); power <= last; ++power) {
    if (power % every != 0) continue;
    for (const int lead : {1, 2, 5}) {
      const double value = lead * std::pow(10.0, power);
      if ((lead > 1 && !few) || value < low || value > high) continue;
      ticks.push_back({.value = value, .text = number_text(value)});
    }
  }
  return ticks.size() >= 2 ? ticks : linear_ticks(low, high, 5);
}

std::string svg_of(const Plot& plot) {
  const bool legend = plot.curves.size() > 1;
  const double height =
      kHeight + (legend ? 6 + kLegendRow * static_cast<double>(plot.curves.size()) : 0);
  const Frame frame(plot);
  std::string text = beginning(height) + axes(frame, plot.y_label);
  for (std::size_t i = 0; i < plot.curves.size(); ++i) {
    const PlotCurve& curve = plot.curves[i];
    const std::string_view color = kColors[i % kColors.size()];
    const std::string_view dash = kDashes[i / kColors.size() % kDashes.size()];
    std::string look = attribute("stroke", color) + R"( stroke-width="1.5")";
    if (!dash.empty()) look += attribute("stroke-dasharray", dash);
    text += path(frame, curve.faint,
                 attribute("stroke", color) + R"( stroke-width="0.6" stroke-opacity="0.3")");
    text += path(frame, curve.curve, look);
    if (plot.dots) text += dots(frame, curve.curve, color);
    if (!legend) continue;
    const double y = kHeight + kLegendRow * static_cast<double>(i);
    text += "<path" + attribute("d", "M" + place(kLeft) + " " + place(y) + "h22") + look + "/>\n";
    text += text_at(kLeft + 30, y + 4, "start", curve.name);
  }
  return text + "</svg>\n";
}

std::string svg_of(const BarPlot& plot) {
  constexpr double kRow = 22;
  constexpr double kBar = 13;
  constexpr double kNames = 150;
  constexpr double kTexts = 330;  // where the texts behind the bars begin
  double most = 0;
  for (const BarRow& row : plot.rows) most = std::max({most, row.whole, row.part});
  std::string text = beginning(44 + kRow * static_cast<double>(plot.rows.size()));
  const auto rect = [](double x, double y, double width, std::string_view color) {
    return "<rect" + attribute("x", place(x)) + attribute("y", place(y)) +
           attribute("width", place(width)) + attribute("height", place(kBar)) +
           attribute("fill", color) + "/>\n";
  };
  constexpr std::string_view kLight = "#a9cde6";
  text += rect(kNames, 10, kBar, kLight) + text_at(kNames + 19, 21, "start", plot.whole_label) +
          rect(kNames + 90, 10, kBar, kColors[0]) +
          text_at(kNames + 109, 21, "start", plot.part_label);
  for (std::size_t i = 0; i < plot.rows.size(); ++i) {
    const BarRow& row = plot.rows[i];
    const double y = 34 + kRow * static_cast<double>(i);
    const auto width = [&](double value) {
      return most > 0 ? value / most * (kTexts - kNames - 10) : 0;
    };
    text +=
        text_at(kNames - 8, y + 11, "end", row.name) + rect(kNames, y, width(row.whole), kLight) +
        rect(kNames, y, width(row.part), kColors[0]) + text_at(kTexts, y + 11, "start", row.text);
  }
  return text + "</svg>\n";
}

}  // namespace strata
