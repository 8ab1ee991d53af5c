// Metrics become lines of JSON, whose keys stand in the order in which they are given. Every line
// is flushed, so that a run that dies has told all it knew.

#include "strata/run/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
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
#include "strata/base/text.h"
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
        } else {
          line[key] = value;
        }
      },
      metric.value);
}

template <class... Arguments>
/// Returns what printf would print, up to 63 characters.
std::string print(const char* format, Arguments... arguments) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, arguments...);
  return text.data();
}

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& file)
    : file_(file), out_(file, std::ios::binary | std::ios::trunc) {
  if (!out_) throw IoError(file_.string() + ": cannot be written");
}

void MetricsLog::start(std::span<const Metric> metrics) {
  const BuildInfo build = build_info();
  const std::array<Metric, 2> program{
      {{"version", std::string(build.version)}, {"commit", std::string(build.commit)}}};
  write("start", {program, metrics});
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

void MetricsLog::end(std::span<const Metric> metrics) { write("end", {metrics}); }

void MetricsLog::write(std::string_view event,
                       std::initializer_list<std::span<const Metric>> parts) {
  Json line{{"event", event}};
  for (const std::span<const Metric> part : parts) {
    for (const Metric& metric : part) put(line, metric);
  }
  // Names of files and devices may hold bytes that are not UTF-8.
  out_ << line.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n' << std::flush;
  if (!out_) throw IoError(file_.string() + ": cannot be written; is the disk full?");
}

void Progress::add(const StepMetrics& metrics) {
  last_ = metrics;
  (counted_ == 0 ? first_s_ : later_s_) += metrics.step_s;
  ++counted_;
}

double Progress::eta_s() const {
  const double mean_s = counted_ > 1 ? later_s_ / static_cast<double>(counted_ - 1) : first_s_;
  return mean_s * static_cast<double>(steps_ - last_.step);
}

std::string Progress::line() const {
  std::string text = "step " + std::to_string(last_.step) + '/' + std::to_string(steps_);
  text += fmt::format(" loss {:.3f} norm {:.2f} lr {:.1e} ", last_.loss, last_.grad_norm, last_.lr);
  text += format_count(std::llround(last_.tokens_per_s())) + " tok/s";
  if (last_.mfu) text += fmt::format(" mfu {:.1f}%", *last_.mfu * 100);
  return text + " eta " + format_duration(eta_s());
}

}  // namespace strata
