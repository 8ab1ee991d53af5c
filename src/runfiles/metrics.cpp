// Writes metrics as lines of JSON, whose keys stand in the order in which they are given.

#include "strata/runfiles/metrics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
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

/// Returns a number with four digits, or null if it is not finite.
Json four_digits(double value) {
  if (!std::isfinite(value)) return nullptr;
  constexpr int kDigits = 4;
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value,
                                 std::chars_format::general, kDigits);
  std::from_chars(text.data(), end.ptr, value);
  return value;
}

/// Returns what was lost of an operand, layer by layer; null if no layer rounds it.
Json losses_of(const Fp8StepCounts& counted, LinearId id, Fp8Operand operand) {
  Json amax = Json::array();
  Json flushed = Json::array();
  Json subnormal = Json::array();
  bool any = false;
  for (std::int64_t layer = 0; layer < counted.layers(); ++layer) {
    const std::optional<Fp8Loss> loss = fp8_loss(counted, layer, id, operand);
    any = any || loss;
    amax.push_back(loss ? four_digits(loss->amax) : Json());
    flushed.push_back(loss ? four_digits(loss->flushed) : Json());
    subnormal.push_back(loss ? four_digits(loss->subnormal) : Json());
  }
  if (!any) return nullptr;
  return {{"amax", std::move(amax)},
          {"flushed", std::move(flushed)},
          {"subnormal", std::move(subnormal)}};
}

}  // namespace

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
                                 {"loss", {}},
                                 {"grad_norm", m.grad_norm},
                                 {"lr", m.lr},
                                 {"tokens", m.tokens},
                                 {"step_s", m.step_s},
                                 {"tokens_per_s", m.tokens_per_s()},
                                 {"mfu", {}}}};
  if (m.loss) metrics[1].value = *m.loss;
  if (m.mfu) metrics.back().value = *m.mfu;
  write("step", {metrics, extras});
}

void MetricsLog::eval(std::int64_t step, double val_loss) {
  const std::array<Metric, 2> metrics{{{"step", step}, {"val_loss", val_loss}}};
  write("eval", {metrics});
}

void MetricsLog::fp8(const Fp8StepCounts& counted) {
  Json line{{"event", "fp8"}, {"step", counted.step + 1}};
  for (const auto& [id, linear] : kLinearNames) {
    for (const auto& [operand, name] : kFp8OperandNames) {
      Json losses = losses_of(counted, id, operand);
      if (!losses.is_null()) line[std::string(linear)][std::string(name)] = std::move(losses);
    }
  }
  file_.write(json_text(line, kOneLine, NotUtf8::kReplace) + '\n');
}

void MetricsLog::trace(std::span<const Metric> metrics) { write("trace", {metrics}); }

void MetricsLog::end(std::span<const Metric> metrics) {
  const std::array<Metric, 1> lost{{{"lost_lines", lost_lines()}}};
  write("end", {metrics, lost});
}

void MetricsLog::write(std::string_view event,
                       std::initializer_list<std::span<const Metric>> parts) {
  Json line{{"event", event}};
  for (const std::span<const Metric> part : parts) {
    for (const Metric& metric : part) put(line, metric);
  }
  // Names of files and devices may hold bytes that are not UTF-8.
  file_.write(json_text(line, kOneLine, NotUtf8::kReplace) + '\n');
}

std::optional<std::int64_t> last_step_in(const std::filesystem::path& file) {
  constexpr std::uint64_t kEnd = 1 << 18;  // some hundred lines
  std::string text;
  try {
    const InputFile metrics(file, Links::kRefuse);
    const std::uint64_t begin = metrics.bytes() - std::min(metrics.bytes(), kEnd);
    text.resize(static_cast<std::size_t>(metrics.bytes() - begin));
    text.resize(metrics.read_some(begin, std::as_writable_bytes(std::span(text))));
  } catch (const IoError&) {
    return std::nullopt;
  }
  // Not every line is JSON: the first one may be a part, and of the last one only a part written.
  constexpr std::string_view kStepLine = "{\"event\":\"step\",\"step\":";
  const std::size_t at = text.rfind(kStepLine);
  if (at == std::string::npos) return std::nullopt;
  std::int64_t step = 0;
  const char* const text_end = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data() + at + kStepLine.size(), text_end, step);
  return error == std::errc{} && end != text_end ? std::optional(step) : std::nullopt;
}

}  // namespace strata
