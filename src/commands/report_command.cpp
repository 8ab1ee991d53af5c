// `report` reads run folders and writes what people look at: a page, or figures. Files get their
// names when they are whole, so that a browser never opens half a page, and replace earlier ones
// alone: an --output that names the wrong file must not cost a run its metrics.

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/log.h"
#include "strata/base/output_file.h"
#include "strata/base/text.h"
#include "strata/base/version.h"
#include "strata/base/work_meter.h"
#include "strata/commands/commands.h"
#include "strata/report/png_figures.h"
#include "strata/report/report_page.h"
#include "strata/report/run_history.h"
#include "strata/report/svg_figures.h"
#include "strata/runfiles/run_folder.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}", local.tm_year + 1900, local.tm_mon + 1,
                     local.tm_mday, local.tm_hour, local.tm_min);
}

/// A file that `report` writes.
struct Output {
  fs::path file;
  std::string_view option;  ///< that says where
  std::string_view what;
  bool (*is_earlier)(std::string_view beginning);  ///< whether a file begins as one of the kind
};

bool is_page(std::string_view beginning) {
  return beginning.starts_with("<!doctype html>") &&
         beginning.find("- strata report</title>") != std::string_view::npos;
}
bool is_figure(std::string_view beginning) { return beginning.starts_with("<svg"); }
bool is_picture(std::string_view beginning) { return beginning.starts_with("\x89PNG"); }

Output page_in(const fs::path& file) {
  return {.file = file, .option = "--output", .what = "page", .is_earlier = is_page};
}
Output figure_in(const fs::path& file) {
  return {.file = file, .option = "--svg", .what = "figure", .is_earlier = is_figure};
}
Output picture_in(const fs::path& file) {
  return {.file = file, .option = "--png", .what = "figure", .is_earlier = is_picture};
}

/// Refuses a place at which something other than an earlier output lies.
void require_earlier(const Output& output) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(output.file, error))) return;
  require_replaceable(output.file.string());
  // Names of runs make a title as long as they like.
  constexpr std::size_t kMostBeginning = std::size_t{1} << 20;
  const InputFile file(output.file);
  std::string beginning(std::min<std::size_t>(file.bytes(), kMostBeginning), '\0');
  beginning.resize(file.read_some(0, std::as_writable_bytes(std::span(beginning))));
  if (beginning.empty() || output.is_earlier(beginning)) return;
  throw IoError(std::string(output.option) + ": " + output.file.string() + " is there and is no " +
                std::string(output.what) + " of strata report; name another place with " +
                std::string(output.option));
}

/// Writes a file that replaces an earlier one when it is whole.
void write_whole(const Output& output, std::string_view text) {
  if (output.file.has_parent_path()) {
    std::error_code error;
    fs::create_directories(output.file.parent_path(), error);
    if (error) {
      throw IoError(std::string(output.option) + ": " + output.file.string() +
                    " cannot be written: " + error.message() + "; name another place with " +
                    std::string(output.option));
    }
  }
  write_file(output.file.string(), text);
}

/// Returns where a figure becomes a PNG file.
Output picture_of(const SvgFigure& figure, const fs::path& folder) {
  return picture_in(folder / fs::path(figure.name).replace_extension(".png"));
}

/// Refuses places of figures, before any is written.
void require_earlier(const std::vector<SvgFigure>& figures, const ReportOptions& options) {
  for (const SvgFigure& figure : figures) {
    if (!options.svg.empty()) require_earlier(figure_in(options.svg / figure.name));
    if (!options.png.empty()) require_earlier(picture_of(figure, options.png));
  }
}

void say_written(const fs::path& folder, const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  log::info("figures in {}: {}", folder.string(), list);
}

void write_figures(const std::vector<SvgFigure>& figures, const fs::path& folder) {
  std::vector<std::string> names;
  for (const SvgFigure& figure : figures) {
    write_whole(figure_in(folder / figure.name), figure.text);
    names.push_back(figure.name);
  }
  say_written(folder, names);
}

void write_pictures(const std::vector<SvgFigure>& figures, const fs::path& folder, int width) {
  const PngPrinter printer(width);
  WorkProgress work;
  work.begin("drawing figures", {figures.size(), "figures"});
  const WorkMeter meter(work);
  std::vector<std::string> names;
  for (const SvgFigure& figure : figures) {
    const Output output = picture_of(figure, folder);
    write_whole(output, printer.print(figure));
    names.push_back(output.file.filename());
    work.add(1);
  }
  say_written(folder, names);
}

/// Writes the figures that the options ask for.
void write_figures(const std::vector<RunHistory>& runs, const ReportOptions& options) {
  const std::vector<SvgFigure> figures = svg_figures(runs);
  if (figures.empty()) {
    log::warn("{}: the runs have nothing to draw yet", options.svg.empty() ? "--png" : "--svg");
    return;
  }
  require_earlier(figures, options);
  if (!options.svg.empty()) write_figures(figures, options.svg);
  if (!options.png.empty()) write_pictures(figures, options.png, options.png_width);
}

fs::path page_file(const ReportOptions& options, const std::vector<RunHistory>& runs) {
  if (!options.output.empty()) return options.output;
  return runs.size() == 1 ? runs[0].folder / kReportName : fs::path(kReportName);
}

}  // namespace

int report_command(const ReportOptions& options) {
  std::vector<RunHistory> runs;
  for (const fs::path& folder : options.runs) runs.push_back(read_run(folder));
  name_runs(runs);
  for (const RunHistory& run : runs) {
    for (const std::string& note : run.notes) log::warn("{}: {}", run.name, note);
  }
  const Output output = page_in(page_file(options, runs));
  require_earlier(output);
  if (!options.svg.empty() || !options.png.empty()) write_figures(runs, options);
  const std::string page = report_page(
      std::move(runs), {.program = "strata " + version_text(build_info()), .made = now_text()});
  write_whole(output, page);
  log::info("report in {} ({}); open it in a browser, it needs no other file and no network",
            output.file.string(), format_bytes(page.size()));
  return 0;
}

}  // namespace strata
