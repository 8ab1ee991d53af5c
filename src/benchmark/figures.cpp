// Takes figures from the JSON of a bench. It is read by key; keys that are not known are left
// alone, since a later strata may write more of them.

#include "strata/benchmark/figures.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "benchmark/parse_json_text.h"
#include "strata/base/error.h"
#include "strata/base/json.h"

namespace strata {

namespace {

using Json = nlohmann::ordered_json;

/// What is no figure, but says what was measured.
constexpr std::array<const char*, 18> kFacts{"device",
                                             "backend",
                                             "ranks",
                                             "dtype",
                                             "parameters",
                                             "sequence_length",
                                             "tokens_per_step",
                                             "steps",
                                             "passes",
                                             "resident_units",
                                             "training_state",
                                             "activations_kept",
                                             "activations_spilled",
                                             "prompts",
                                             "prompt_tokens",
                                             "drawn_tokens",
                                             "sequences_at_once",
                                             "layout"};

std::optional<double> number_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::string text_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::size_t bytes_in(const Json& json, const char* key) {
  const std::optional<double> bytes = number_in(json, key);
  return bytes && *bytes >= 0 && *bytes < 0x1p63 ? static_cast<std::size_t>(*bytes) : 0;
}

bool is_bench(const Json& json) {
  return json.is_object() && (json.contains("step_s_each") || json.contains("generated_tokens"));
}

/// Returns predicted over measured time, if both are there.
std::optional<double> predicted_of_measured(const Json& json) {
  const auto prediction = json.find("prediction");
  if (prediction == json.end() || !prediction->is_object()) return std::nullopt;
  const bool steps = json.contains("step_s_each");
  const std::optional<double> predicted = number_in(*prediction, steps ? "step_s" : "seconds");
  const std::optional<double> measured = number_in(json, steps ? "step_s_median" : "seconds");
  if (!predicted || !measured || !(*measured > 0)) return std::nullopt;
  return *predicted / *measured;
}

/// Returns the median of those that a figure is known of.
std::optional<double> middle_of(std::span<const BenchFigures> runs,
                                std::optional<double> BenchFigures::*figure) {
  std::vector<double> values;
  for (const BenchFigures& run : runs) {
    if (run.*figure) values.push_back(*(run.*figure));
  }
  if (values.empty()) return std::nullopt;
  return median(std::move(values));
}

}  // namespace

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

std::optional<double> spread(const std::vector<double>& values) {
  if (values.size() < 2) return std::nullopt;
  const auto [least, most] = std::ranges::minmax(values);
  return (most - least) / median(values);
}

bool is_bench(std::string_view json) {
  try {
    return is_bench(parse_json<Json>(json));
  } catch (const std::exception&) {
    return false;
  }
}

BenchFigures read_bench(std::string_view text, const std::string& place) {
  const Json json = parse_json_text<Json>(text, place);
  if (!is_bench(json)) {
    throw ConfigError(place + ": holds no results of strata bench; name what it wrote by --json");
  }
  const std::optional<double> tokens_per_s = number_in(json, "tokens_per_s");
  constexpr double kMostPerS = 1e15;  // beyond which no machine is
  if (!tokens_per_s || !(*tokens_per_s > 0 && *tokens_per_s <= kMostPerS)) {
    throw ConfigError(place + ": tokens_per_s: is missing or no speed; measure again");
  }
  BenchFigures figures{
      .tokens_per_s = *tokens_per_s,
      .mfu = number_in(json, "mfu"),
      .step_s = number_in(json, "step_s_median"),
      .predicted_of_measured = predicted_of_measured(json),
      .device_planned_bytes = bytes_in(json, "device_planned_bytes"),
      .device_bytes = bytes_in(json, "device_measured_bytes"),
      .host_planned_bytes = bytes_in(json, "host_planned_bytes"),
      .host_bytes = bytes_in(json, "host_peak_bytes"),
      .races = static_cast<std::int64_t>(bytes_in(json, "races")),
      .device = text_in(json, "device"),
      .version = text_in(json, "version"),
      .commit = text_in(json, "commit"),
      .ranks = std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes_in(json, "ranks"))),
      .facts = {}};
  for (const char* key : kFacts) {
    const auto found = json.find(key);
    if (found != json.end()) figures.facts.push_back({.path = key, .value = shown(*found)});
  }
  return figures;
}

std::optional<RowFigures> summarise(std::span<const BenchFigures> runs) {
  if (runs.empty()) return std::nullopt;
  RowFigures row{.tokens_per_s = {}, .middle = runs.front(), .spread = {}};
  for (const BenchFigures& run : runs) {
    row.tokens_per_s.push_back(run.tokens_per_s);
    row.middle.device_bytes = std::max(row.middle.device_bytes, run.device_bytes);
    row.middle.host_bytes = std::max(row.middle.host_bytes, run.host_bytes);
    row.middle.races = std::max(row.middle.races, run.races);
  }
  row.middle.tokens_per_s = median(row.tokens_per_s);
  row.middle.mfu = middle_of(runs, &BenchFigures::mfu);
  row.middle.step_s = middle_of(runs, &BenchFigures::step_s);
  row.middle.predicted_of_measured = middle_of(runs, &BenchFigures::predicted_of_measured);
  row.spread = spread(row.tokens_per_s);
  return row;
}

}  // namespace strata
