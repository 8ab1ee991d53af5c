// Metrics become lines of JSON, whose keys stand in the order in which they are given. Every line
// goes straight to the file, so that a run that dies has told all it knew, and what is left of a
// line that did not fit is cut off again.

#include "strata/run/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/version.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

std::string_view nonfinite_name(double value) {
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

/// Adds a metric to a line; a number that is not finite goes to "nonfinite".
void put(Json& line, const Metric& metric) {
  const std::string key(metric.key);
  if (const double* number = std::get_if<double>(&metric.value)) {
    if (std::isfinite(*number)) {
      line[key] = *number;
    } else {
      line[key] = nullptr;
      line["nonfinite"][key] = nonfinite_name(*number);
    }
    return;
  }
  std::visit(
      [&](const auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
          line[key] = nullptr;
        } else if constexpr (std::is_same_v<std::decay_t<decltype(value)>, MetricGroup>) {
          line[key] = Json::object();
          for (const auto& [name, number] : value) line[key][name] = number;
        } else {
          line[key] = value;
        }
      },
      metric.value);
}

/// Writes all of `text` at the end of what was written before; returns whether that worked.
bool write_all(int descriptor, std::string_view text, std::int64_t at) {
  while (!text.empty()) {
    const ssize_t written = ::pwrite(descriptor, text.data(), text.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
    at += written;
  }
  return true;
}

/// Returns the bytes up to the end of the last whole line of a file.
std::int64_t end_of_last_line(int descriptor) {
  std::array<char, 4096> text{};
  std::int64_t end = ::lseek(descriptor, 0, SEEK_END);
  while (end > 0) {
    const std::int64_t begin = std::max<std::int64_t>(0, end - std::int64_t{text.size()});
    const ssize_t count =
        ::pread(descriptor, text.data(), static_cast<std::size_t>(end - begin), begin);
    if (count <= 0) return 0;
    const std::size_t newline =
        std::string_view(text.data(), static_cast<std::size_t>(count)).rfind('\n');
    if (newline != std::string_view::npos) return begin + static_cast<std::int64_t>(newline) + 1;
    end = begin;
  }
  return 0;
}

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& file, OldLines old)
    : file_(file),
      descriptor_(::open(file.c_str(),
                         O_RDWR | O_CREAT | O_CLOEXEC | (old == OldLines::kRemove ? O_TRUNC : 0),
                         0666)) {
  if (descriptor_ < 0) {
    throw IoError(file_.string() + ": cannot be written: " + std::strerror(errno));
  }
  // The next line is written over what a run that was killed left of its last one.
  if (old == OldLines::kKeep) whole_bytes_ = end_of_last_line(descriptor_);
}

MetricsLog::~MetricsLog() { ::close(descriptor_); }

void MetricsLog::start(std::span<const Metric> metrics) { begin("start", metrics); }

void MetricsLog::resume(std::span<const Metric> metrics) { begin("resume", metrics); }

void MetricsLog::checkpoint(std::span<const Metric> metrics) { write("checkpoint", {metrics}); }

void MetricsLog::rollback(std::span<const Metric> metrics) { write("rollback", {metrics}); }

void MetricsLog::begin(std::string_view event, std::span<const Metric> metrics) {
  const BuildInfo build = build_info();
  const std::array<Metric, 2> program{
      {{"version", std::string(build.version)}, {"commit", std::string(build.commit)}}};
  write(event, {program, metrics});
}

void MetricsLog::step(const StepMetrics& m, std::span<const Metric> extras) {
  std::array<Metric, 8> metrics{{{"step", m.step},
                                 {"loss", m.loss},
                                 {"grad_norm", m.grad_norm},
                                 {"lr", m.lr},
                                 {"tokens", m.tokens},
                                 {"step_s", m.step_s},
                                 {"tokens_per_s", m.tokens_per_s()},
                                 {"mfu", {}}}};
  if (m.mfu) metrics.back().value = *m.mfu;
  write("step", {metrics, extras});
}

void MetricsLog::eval(std::int64_t step, double val_loss) {
  const std::array<Metric, 2> metrics{{{"step", step}, {"val_loss", val_loss}}};
  write("eval", {metrics});
}

void MetricsLog::trace(std::span<const Metric> metrics) { write("trace", {metrics}); }

void MetricsLog::end(std::span<const Metric> metrics) {
  const std::array<Metric, 1> lost{{{"lost_lines", lost_lines_}}};
  write("end", {metrics, lost});
}

void MetricsLog::write(std::string_view event,
                       std::initializer_list<std::span<const Metric>> parts) {
  Json line{{"event", event}};
  for (const std::span<const Metric> part : parts) {
    for (const Metric& metric : part) put(line, metric);
  }
  // Names of files and devices may hold bytes that are not UTF-8.
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
  if (write_all(descriptor_, text, whole_bytes_)) {
    whole_bytes_ += static_cast<std::int64_t>(text.size());
    return;
  }
  const char* why = std::strerror(errno);
  if (lost_lines_++ == 0) {
    log::warn(
        "{}: a line could not be written: {}; the run goes on, and lines are lost until "
        "there is room",
        file_.string(), why);
  }
  // Half a line would end the reading of many a script. Where even that fails, the next line is
  // written over it.
  if (::ftruncate(descriptor_, whole_bytes_) != 0) return;
}

}  // namespace strata
