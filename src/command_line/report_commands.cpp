// The command that shows runs: `report`.

#include <memory>

#include "strata/command_line/command_line.h"
#include "strata/commands/commands.h"

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
  report.callback([options, &action] { action = [options] { return report_command(*options); }; });
}

}  // namespace strata
