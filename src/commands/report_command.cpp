// `report` reads run folders and writes what people look at: a page, or figures. Files get their
// names when they are whole, so that a browser never opens half a page.

#include <cerrno>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/base/version.h"
#include "strata/commands/commands.h"
#include "strata/report/report_page.h"
#include "strata/report/run_history.h"
#include "strata/report/svg_figures.h"
#include "strata/run/run_folder.h"

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

/// Writes a file that replaces an earlier one when it is whole.
void write_whole(const fs::path& file, std::string_view text, std::string_view option) {
  const auto refuse = [&](const std::string& why) {
    throw IoError(std::string(option) + ": " + file.string() + " cannot be written: " + why +
                  "; name another place with " + std::string(option));
  };
  std::error_code error;
  if (fs::is_directory(file, error)) refuse("it is a folder");
  if (file.has_parent_path()) {
    fs::create_directories(file.parent_path(), error);
    if (error) refuse(error.message());
  }
  fs::path temporary = file;
  temporary += ".tmp";
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  if (!out) refuse(std::generic_category().message(errno));
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  if (!out) {
    const std::string why = std::generic_category().message(errno);
    fs::remove(temporary, error);
    refuse(why);
  }
  fs::rename(temporary, file, error);
  if (!error) return;
  const std::string why = error.message();
  fs::remove(temporary, error);
  refuse(why);
}

void write_figures(const std::vector<RunHistory>& runs, const fs::path& folder) {
  const std::vector<SvgFigure> figures = svg_figures(runs);
  if (figures.empty()) {
    log::warn("--svg: the runs have nothing to draw yet");
    return;
  }
  std::string names;
  for (const SvgFigure& figure : figures) {
    write_whole(folder / figure.name, figure.text, "--svg");
    names += (names.empty() ? "" : ", ") + figure.name;
  }
  log::info("figures in {}: {}", folder.string(), names);
}

}  // namespace

int report_command(const ReportOptions& options) {
  log::configure(0, 1, "");
  std::vector<RunHistory> runs;
  for (const fs::path& folder : options.runs) runs.push_back(read_run(folder));
  name_runs(runs);
  for (const RunHistory& run : runs) {
    for (const std::string& note : run.notes) log::warn("{}: {}", run.name, note);
  }
  if (!options.svg.empty()) write_figures(runs, options.svg);
  fs::path output = options.output;
  if (output.empty()) output = kReportName;
  if (options.output.empty() && runs.size() == 1) output = runs[0].folder / kReportName;
  const std::string page = report_page(
      std::move(runs), {.program = "strata " + version_text(build_info()), .made = now_text()});
  write_whole(output, page, "--output");
  log::info("report in {} ({}); open it in a browser, it needs no other file and no network",
            output.string(), format_bytes(page.size()));
  return 0;
}

}  // namespace strata
