// Figures as PNG files, for whoever's programs take no SVG. Strata does not draw pixels itself: a
// program of the machine does, the first of some well-known ones that can.

#pragma once

#include <string>

#include "strata/base/temporary.h"
#include "strata/report/svg_figures.h"

namespace strata {

/// The widths that figures may have, in pixels.
inline constexpr int kLeastPngWidth = 100;
inline constexpr int kMostPngWidth = 20000;

/// Has figures drawn. It keeps a folder of its own among the temporary files of the system while it
/// lives.
class PngPrinter {
 public:
  /// Figures become `width` pixels wide. Throws IoError if no folder can be made.
  explicit PngPrinter(int width);

  /// Returns the figure as the bytes of a PNG file. Blocks while another program draws it. Throws
  /// IoError, which says what to install, if no program drew one of this width.
  [[nodiscard]] std::string print(const SvgFigure& figure) const;

 private:
  int width_;
  TemporaryFolder folder_;
};

}  // namespace strata
