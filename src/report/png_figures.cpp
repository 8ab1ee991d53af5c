// Finds a program that draws SVG files as PNG, and runs it. A program counts as able only by what
// it has drawn: some are there under their names without reading SVG, or without what they need for
// it.

#include "strata/report/png_figures.h"

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <vector>

#include "report/svg_plot.h"
#include "strata/base/error.h"
#include "strata/base/run_program.h"

namespace strata {

namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

/// What is drawn, and where to.
struct Drawing {
  std::string svg, png;
  int width = 0;  ///< pixels
};

/// Returns the command lines that draw it, in the order in which they are tried.
std::vector<Arguments> programs(const Drawing& d) {
  const std::string width = std::to_string(d.width);
  constexpr int kPointsPerInch = 96;
  const std::string density =
      std::to_string(d.width * kPointsPerInch / static_cast<int>(kFigureWidth));
  return {{"rsvg-convert", "--format=png", "--width=" + width, "--keep-aspect-ratio",
           "--output=" + d.png, d.svg},
          {"inkscape", "--export-type=png", "--export-width=" + width, "--export-filename=" + d.png,
           d.svg},
          {"cairosvg", d.svg, "--format", "png", "--output-width", width, "--output", d.png},
          {"magick", "-density", density, d.svg, "-resize", width + "x", d.png},
          {"convert", "-density", density, d.svg, "-resize", width + "x", d.png}};
}

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Returns the width that the beginning of a PNG file tells, or 0 if it is none.
std::uint32_t width_of(std::string_view png) {
  constexpr std::string_view kBeginning("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
  if (!png.starts_with(kBeginning) || png.size() < kBeginning.size() + 4) return 0;
  std::uint32_t width = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    width = width << 8 | static_cast<unsigned char>(png[kBeginning.size() + i]);
  }
  return width;
}

}  // namespace

PngPrinter::PngPrinter(int width) : width_(width), folder_(temporary_name("strata-figures")) {}

std::string PngPrinter::print(const SvgFigure& figure) const {
  constexpr double kLimitS = 60;
  const Drawing drawing{
      .svg = folder_.path() / "figure.svg", .png = folder_.path() / "figure.png", .width = width_};
  std::ofstream(drawing.svg, std::ios::binary) << figure.text;
  std::string tried;
  for (const Arguments& program : programs(drawing)) {
    std::error_code ignored;
    fs::remove(drawing.png, ignored);
    const ProgramAnswer answer = run_program(program, kLimitS);
    std::string png = bytes_of(drawing.png);
    if (answer.failure.empty() && width_of(png) == static_cast<std::uint32_t>(width_)) return png;
    tried += (tried.empty() ? "" : ", ") + program[0] + " (" +
             (answer.failure.empty() ? "drew nothing" : answer.failure) + ")";
  }
  throw IoError("--png: no program of this machine draws " + figure.name + " as PNG; tried " +
                tried + ". Install one, such as by apt-get install librsvg2-bin, or take the SVG " +
                "files of --svg");
}

}  // namespace strata
