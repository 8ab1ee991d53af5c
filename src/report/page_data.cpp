// Writes the data of a report's page. Numbers are rounded to what a screen shows, and lists are cut
// to what a person reads; where something was left out, the data say so and the page does too.

#include "report/page_data.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "report/run_totals.h"
#include "strata/base/json.h"
#include "strata/base/text.h"
#include "strata/report/curve.h"

namespace strata {

namespace {

using OrderedJson = nlohmann::ordered_json;

/// What one run has on a page at most; several share it, each down to the least that still shows
/// something.
constexpr std::size_t kBuckets = 2000;
constexpr std::size_t kLeastBuckets = 250;
constexpr std::size_t kSmoothBuckets = 500;
constexpr std::size_t kAxisPoints = 400;
constexpr std::size_t kSpans = 24000;
constexpr std::size_t kLeastSpans = 4000;
constexpr std::size_t kMostSamples = 400;
constexpr std::size_t kLeastSamples = 20;
constexpr std::size_t kMostTextBytes = 2000;
/// The most rows of each kind of event of a run.
constexpr std::size_t kMostRows = 200;
/// The steps over which curves may be smoothed.
constexpr std::array<int, 4> kSmoothings{10, 50, 200, 1000};

/// Returns a number with 7 digits, or null for one that JSON does not have.
OrderedJson number(double value) {
  if (!std::isfinite(value)) return nullptr;
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 7);
  double rounded = value;
  std::from_chars(text.data(), end.ptr, rounded);
  if (rounded == std::trunc(rounded) && std::abs(rounded) < 1e15) {
    return static_cast<std::int64_t>(rounded);
  }
  return rounded;
}

OrderedJson number(const std::optional<double>& value) {
  return value ? number(*value) : OrderedJson();
}

OrderedJson numbers(std::span<const double> values) {
  OrderedJson list = OrderedJson::array();
  for (const double value : values) list.push_back(number(value));
  return list;
}

OrderedJson json_of(const Curve& curve) { return {{"x", curve.x}, {"y", numbers(curve.y)}}; }

/// Writes out what turns a text around or hides it: names, notes and samples come from files.
void make_printable(OrderedJson& value) {
  if (value.is_structured()) {
    for (OrderedJson& inner : value) make_printable(inner);
  } else if (value.is_string()) {
    value = printable(value.get_ref<const std::string&>());
  }
}

bool any_finite(std::span<const double> values) {
  return std::ranges::any_of(values, [](double v) { return std::isfinite(v); });
}

class RunData {
 public:
  RunData(RunHistory& run, std::size_t runs)
      : run_(run),
        buckets_(std::max(kLeastBuckets, kBuckets / runs)),
        smooth_buckets_(std::max(kLeastBuckets, kSmoothBuckets / runs)),
        spans_(std::max(kLeastSpans, kSpans / runs)),
        samples_(std::max(kLeastSamples, kMostSamples / runs)) {}

  OrderedJson json() {
    return {{"name", run_.name},
            {"folder", run_.folder.string()},
            {"end", run_.end_reason},
            {"notes", run_.notes},
            {"facts", run_.facts},
            {"totals", totals()},
            {"axis", axis()},
            {"series", series()},
            {"validation", validation()},
            {"memory", memory()},
            {"lanes", lanes()},
            {"fp8", fp8()},
            {"timeline", timeline()},
            {"samples", samples()},
            {"saves", saves()},
            {"rollbacks", rollbacks()},
            {"skipped", skipped()},
            {"resumes", resumes()},
            {"config", config()}};
  }

 private:
  OrderedJson totals() const {
    const RunTotals t = totals_of(run_);
    const auto validation_of = [](const std::optional<ValidatedStep>& v) -> OrderedJson {
      return v ? OrderedJson{{"step", v->step}, {"loss", number(v->loss)}} : OrderedJson();
    };
    return {{"steps", run_.steps.size() > 0 ? run_.steps.step.back() : 0},
            {"loss", number(t.loss)},
            {"tokens", number(t.tokens)},
            {"seconds", number(t.seconds)},
            {"tokens_per_s", number(t.tokens_per_s)},
            {"targets_per_s", number(t.targets_per_s)},
            {"mfu", number(t.mfu)},
            {"mfu_attended", number(t.mfu_attended)},
            {"last_validation", validation_of(t.last_validation)},
            {"best_validation", validation_of(t.best_validation)}};
  }

  /// Tokens and hours at some of the steps; the page takes what lies between as linear.
  OrderedJson axis() const {
    const RunAxes axes = axes_of(run_.steps);
    OrderedJson steps = OrderedJson::array();
    OrderedJson tokens = OrderedJson::array();
    OrderedJson hours = OrderedJson::array();
    const std::size_t count = run_.steps.size();
    const std::size_t points = std::min(count, kAxisPoints);
    for (std::size_t i = 0; i < points; ++i) {
      const std::size_t at = points == 1 ? 0 : (count - 1) * i / (points - 1);
      steps.push_back(run_.steps.step[at]);
      tokens.push_back(number(axes.tokens[at]));
      hours.push_back(number(axes.hours[at]));
    }
    return {{"step", steps}, {"tokens", tokens}, {"hours", hours}};
  }

  OrderedJson series() const {
    const StepSeries& s = run_.steps;
    OrderedJson all = OrderedJson::object();
    const auto add = [&](const char* key, const std::vector<double>& values, bool smooth) {
      if (!any_finite(values)) return;
      OrderedJson curve = json_of(thinned(s.step, values, buckets_));
      if (smooth) {
        OrderedJson smooths = OrderedJson::object();
        for (const int steps : kSmoothings) {
          if (s.size() < 2 * static_cast<std::size_t>(steps)) break;
          smooths[std::to_string(steps)] =
              json_of(thinned(s.step, smoothed(values, steps), smooth_buckets_));
        }
        curve["smooth"] = std::move(smooths);
      }
      all[key] = std::move(curve);
    };
    add("loss", s.loss, true);
    add("reward_margin", s.reward_margin, true);
    add("preferred", s.preferred, true);
    add("lr", s.lr, false);
    add("grad_norm", s.grad_norm, true);
    add("tokens_per_s", s.tokens_per_s, true);
    add("mfu", s.mfu, true);
    return all;
  }

  OrderedJson validation() const {
    Curve curve;
    for (const ValidatedStep& v : run_.validations) {
      curve.x.push_back(v.step);
      curve.y.push_back(v.loss);
    }
    return json_of(thinned(curve.x, curve.y, buckets_));
  }

  OrderedJson memory() const {
    return {{"device_planned", number(run_.memory.device_planned)},
            {"device_measured", number(run_.memory.device_measured)},
            {"host_planned", number(run_.memory.host_planned)},
            {"host_peak", number(run_.memory.host_peak)}};
  }

  OrderedJson lanes() const {
    const auto time_of = [](const LaneTime& t) -> OrderedJson {
      return {{"lane", t.lane}, {"busy", number(t.busy_s)}, {"exposed", number(t.exposed_s)}};
    };
    OrderedJson all = OrderedJson::array();
    for (const LaneTimes& times : run_.traced) {
      OrderedJson lanes = OrderedJson::array();
      for (const LaneTime& lane : times.lanes) lanes.push_back(time_of(lane));
      all.push_back({{"step", times.step}, {"lanes", lanes}, {"updates", time_of(times.updates)}});
    }
    return all;
  }

  /// The largest share that became zero by step, and of the last step that of each linear.
  OrderedJson fp8() const {
    if (run_.fp8.empty()) return nullptr;
    const Curve worst = flushed_of(run_);
    OrderedJson last = OrderedJson::array();
    for (const Fp8Worst& of : run_.fp8.back().linears) {
      last.push_back({{"linear", of.linear},
                      {"operand", of.operand},
                      {"layer", of.layer},
                      {"flushed", number(of.flushed)},
                      {"subnormal", number(of.subnormal)},
                      {"amax", number(of.amax)}});
    }
    return {{"flushed", json_of(thinned(worst.x, worst.y, buckets_))},
            {"step", run_.fp8.back().step},
            {"last", last}};
  }

  /// Each lane as lists of numbers: the pause before a span and its length in tenths of a
  /// microsecond, and indices.
  OrderedJson timeline() {
    if (!run_.trace) return nullptr;
    TraceEvents& trace = *run_.trace;
    put_together(trace, spans_);
    OrderedJson lanes = OrderedJson::array();
    for (const TraceLane& lane : trace.lanes) {
      OrderedJson rows = OrderedJson::array();
      std::int64_t at = 0;
      for (const TraceSpan& span : lane.spans) {
        const std::int64_t begin = std::llround(span.begin_us * 10);
        const std::int64_t end = std::llround(span.end_us * 10);
        for (const std::int64_t value :
             {begin - at, end - begin, std::int64_t{span.name}, std::int64_t{span.phase},
              std::int64_t{span.pass}, std::int64_t{span.unit}, std::int64_t{span.cell},
              std::int64_t{span.events}}) {
          rows.push_back(value);
        }
        at = end;
      }
      lanes.push_back({{"name", lane.name}, {"spans", std::move(rows)}});
    }
    return {{"names", trace.names},
            {"phases", trace.phases},
            {"events", trace.events},
            {"spans", trace.spans()},
            {"lanes", lanes}};
  }

  OrderedJson samples() const {
    OrderedJson list = OrderedJson::array();
    const std::size_t count = run_.samples.size();
    const std::size_t shown = std::min(count, samples_);
    for (std::size_t i = 0; i < shown; ++i) {
      const std::size_t at = shown < count ? (count - 1) * i / (shown - 1) : i;
      const DrawnSample& sample = run_.samples[at];
      list.push_back({{"step", sample.step},
                      {"prompt", shortened(sample.prompt, kMostTextBytes)},
                      {"text", shortened(sample.text, kMostTextBytes)},
                      {"finish", sample.finish_reason}});
    }
    return {{"count", count}, {"list", list}};
  }

  /// The last rows of a list, with how many there are.
  template <class T, class F>
  static OrderedJson last_rows(const std::vector<T>& rows, const F& row_of) {
    OrderedJson list = OrderedJson::array();
    const std::size_t shown = std::min(rows.size(), kMostRows);
    for (std::size_t i = rows.size() - shown; i < rows.size(); ++i) list.push_back(row_of(rows[i]));
    return {{"count", rows.size()}, {"list", list}};
  }

  OrderedJson saves() const {
    return last_rows(run_.saves, [](const SavedState& s) -> OrderedJson {
      return {{"step", s.step},           {"weights", s.weights_alone},
              {"saved", s.saved},         {"seconds", number(s.seconds)},
              {"bytes", number(s.bytes)}, {"failure", s.failure}};
    });
  }
  OrderedJson rollbacks() const {
    return last_rows(run_.rollbacks, [](const GoneBack& r) -> OrderedJson {
      return {{"step", r.step}, {"what", r.what}};
    });
  }
  OrderedJson skipped() const {
    return last_rows(run_.skipped, [](const SkippedStep& s) -> OrderedJson {
      return {{"step", s.step}, {"what", s.what}};
    });
  }
  OrderedJson resumes() const {
    return last_rows(run_.resumes, [](const Resumed& r) -> OrderedJson {
      return {{"step", r.step}, {"checkpoint", r.checkpoint}};
    });
  }

  OrderedJson config() const {
    OrderedJson list = OrderedJson::array();
    for (const ConfigValue& value : run_.config) {
      list.push_back({value.path, shortened(value.value, kMostTextBytes)});
    }
    return list;
  }

  RunHistory& run_;
  std::size_t buckets_;
  std::size_t smooth_buckets_;
  std::size_t spans_;
  std::size_t samples_;
};

}  // namespace

std::string page_data(std::vector<RunHistory> runs, const PageOrigin& origin) {
  OrderedJson list = OrderedJson::array();
  for (RunHistory& run : runs) list.push_back(RunData(run, runs.size()).json());
  OrderedJson differences = OrderedJson::array();
  for (const ConfigDifference& d : config_differences(runs)) {
    differences.push_back({{"path", d.path}, {"values", d.values}});
  }
  OrderedJson data{{"program", origin.program},
                   {"made", origin.made},
                   {"smoothings", kSmoothings},
                   {"runs", std::move(list)},
                   {"differences", std::move(differences)}};
  make_printable(data);
  std::string text = json_text(data, kOneLine, NotUtf8::kReplace);
  // "<" stands in strings alone, where it may be written by its number.
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at)) {
    text.replace(at, 1, "\\u003c");
  }
  return text;
}

}  // namespace strata
