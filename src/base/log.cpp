// Builds the logger that all ranks use: standard error, an optional file, and a pattern that names
// ranks other than 0. Every line from info on is flushed, so a run that dies keeps its last words.

#include "strata/base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <memory>
#include <string>
#include <vector>

#include "strata/base/error.h"

namespace strata::log {

void configure(int rank, int ranks, const std::string& file) {
  std::vector<spdlog::sink_ptr> sinks{std::make_shared<spdlog::sinks::stderr_color_sink_mt>()};
  if (!file.empty()) {
    try {
      sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(file));
    } catch (const spdlog::spdlog_ex& e) {
      throw IoError("cannot append to the log file " + file + ": " + e.what());
    }
  }
  auto logger = std::make_shared<spdlog::logger>("strata", sinks.begin(), sinks.end());
  const std::string who =
      rank == 0 ? "" : "[rank " + std::to_string(rank) + " of " + std::to_string(ranks) + "] ";
  logger->set_pattern("[%H:%M:%S] [%^%l%$] " + who + "%v");
  logger->set_level(rank == 0 ? spdlog::level::info : spdlog::level::warn);
  // One line a step is rare enough to flush each.
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace strata::log
