// The command that shows runs: `report`.

#include <memory>

#include "command_line/number_range.h"
#include "command_line/sub_commands.h"
#include "strata/commands/commands.h"
#include "strata/report/png_figures.h"

namespace strata {

void add_report_commands(CLI::App& app, Action& action) {
  const auto options = std::make_shared<ReportOptions>();
  CLI::App& report =
      *app.add_subcommand("report", "Make an HTML page of runs that needs no network");
  report.add_option("runs", options->runs, "run folders; several are drawn over each other")
      ->required();
  report
      .add_option("--output", options->output,
                  "the file to write (default: report.html in the run folder, or here for several "
                  "runs); an earlier one is replaced")
      ->type_name("FILE");
  report
      .add_option("--svg", options->svg,
                  "also write each chart as an SVG file, for papers, into this folder")
      ->type_name("DIR");
  CLI::Option* const png =
      report
          .add_option(
              "--png", options->png,
              "likewise as PNG files; rsvg-convert (apt-get install librsvg2-bin), inkscape, "
              "cairosvg or ImageMagick draws them")
          ->type_name("DIR");
  report
      .add_option("--png-width", options->png_width,
                  "how many pixels wide the figures of --png are (default: 2000)")
      ->type_name("N")
      ->check(whole_number(kLeastPngWidth, kMostPngWidth))
      ->needs(png);
  report.callback([options, &action] { action = [options] { return report_command(*options); }; });
}

}  // namespace strata
