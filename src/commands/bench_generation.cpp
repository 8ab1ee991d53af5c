// A load of random prompts, after two tokens of as many as there are at once, which touch memory
// and wake the device. The time is that of the program's own loop, from the first prompt to the
// last token.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands/bench_results.h"
#include "commands/generation_job.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/log.h"
#include "strata/base/narrow.h"
#include "strata/base/process.h"
#include "strata/base/random.h"
#include "strata/base/stop_signals.h"
#include "strata/base/text.h"
#include "strata/base/version.h"
#include "strata/base/work_meter.h"
#include "strata/complete/generation_session.h"
#include "strata/complete/generator.h"
#include "strata/device/trace.h"
#include "strata/launch/backend_choice.h"
#include "strata/predict/lane_report.h"
#include "strata/train/step_report.h"

namespace strata {

namespace {

/// What was measured.
struct GenerationResult {
  GenerationCounts counts;
  double first_token_s = 0;
  MemoryReport memory;
};

/// Returns a prompt of random ids, another one for each number.
std::vector<std::int32_t> random_prompt(std::int64_t tokens, std::int64_t vocabulary,
                                        std::uint64_t number) {
  constexpr std::uint64_t kSeed = 1;
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < tokens; ++i) {
    const std::uint64_t bits = random_bits(kSeed, number, static_cast<std::uint64_t>(i));
    ids.push_back(static_cast<std::int32_t>(bits % static_cast<std::uint64_t>(vocabulary)));
  }
  return ids;
}

/// Adds up what has one lane and name, whatever its size; what takes longest comes first.
std::vector<WorkReport> by_name(const std::vector<WorkReport>& work) {
  std::map<std::pair<std::string, std::string>, WorkReport> sums;
  for (const WorkReport& w : work) {
    WorkReport& sum = sums.try_emplace({w.lane, w.name}, WorkReport{w.lane, w.name}).first->second;
    sum.bytes = (sum.bytes * sum.count + w.bytes * w.count) / (sum.count + w.count);
    sum.count += w.count;
    sum.busy_s += w.busy_s;
  }
  std::vector<WorkReport> all;
  for (const auto& [name, sum] : sums) all.push_back(sum);
  std::ranges::sort(all, std::ranges::greater{}, &WorkReport::busy_s);
  return all;
}

/// Traces two sweeps of a load, or what is left of it, from where half of its tokens are drawn. The
/// device is waited for before and after them.
class SweepTrace {
 public:
  static constexpr std::string_view kKeys[] = {"traceEvents"};  ///< of the file

  [[nodiscard]] Recorder& recorder() { return recorder_; }
  /// Is told of each drawn token after its sweep, with the counts so far.
  void drawn(const GenerationCounts& counts, const GenerationLoad& load, Device& device) {
    if (first_ == 0 && 2 * counts.drawn_tokens >= load.sequences * load.drawn_tokens) {
      device.synchronize();
      first_ = counts.sweeps;
      recorder_.start();
    } else if (recorder_.active() && counts.sweeps > first_) {
      sweeps_ = static_cast<int>(counts.sweeps - first_);
      if (sweeps_ == kSweeps) stop(device);
    }
  }
  void stop(Device& device) {
    device.synchronize();
    recorder_.stop();
  }
  /// Writes the trace, if there is one, and returns lines about its lanes and its work.
  [[nodiscard]] std::string finish(const std::filesystem::path& file) const {
    if (sweeps_ == 0) {
      return "no sweep follows where half of the tokens are drawn, so no trace is written\n";
    }
    recorder_.write_chrome_trace(file.string());
    std::string text;
    for (const LaneReport& lane : lane_times(recorder_, sweeps_)) {
      text += fmt::format("lane {:<15} busy {:.3f} ms, exposed {:.3f} ms a sweep\n", lane.lane,
                          1e3 * lane.busy_s, 1e3 * lane.exposed_s);
    }
    constexpr std::size_t kMost = 10;
    std::vector<WorkReport> work = by_name(work_times(recorder_, sweeps_));
    work.resize(std::min(work.size(), kMost));
    for (const WorkReport& w : work) {
      text += fmt::format("work {:<15} {:.3f} ms a sweep, {} times {} of {}\n", w.lane,
                          1e3 * w.busy_s, format_count(std::llround(w.count)), w.name,
                          format_bytes(static_cast<std::size_t>(w.bytes)));
    }
    text += fmt::format("races in the traced sweeps: {}\n", recorder_.races().size());
    return text + "trace           " + file.string() + "\n";
  }

 private:
  static constexpr int kSweeps = 2;

  Recorder recorder_;
  std::int64_t first_ = 0;  ///< sweeps before the traced ones, once they have begun
  int sweeps_ = 0;          ///< traced
};

/// Generates a load; returns its counts and the seconds until the first token.
GenerationResult generate(GenerationSession& session, const GenerationLoad& load,
                          const StopSignals& stop, WorkProgress& work, SweepTrace* trace) {
  Generator generator(session.engine());
  const std::int64_t vocabulary = session.setup().spec.vocabulary;
  std::int64_t taken = 0;
  GenerationResult result;
  const double begin_s = steady_seconds();
  generator.run(
      [&]() -> std::optional<GenerateRequest> {
        if (taken == load.sequences) return std::nullopt;
        const auto number = static_cast<std::uint64_t>(taken++);
        return GenerateRequest{.prompt = random_prompt(load.prompt_tokens, vocabulary, number),
                               .sampling = {.seed = number},
                               .most_tokens = load.drawn_tokens};
      },
      [&](const DrawnToken&) {
        if (const int signal = stop.received()) throw Interrupted(signal);
        if (result.first_token_s == 0) result.first_token_s = steady_seconds() - begin_s;
        if (trace != nullptr) trace->drawn(generator.counts(), load, session.device());
        work.add(1);
        return true;
      });
  result.counts = generator.counts();
  return result;
}

double tokens_per_s(const GenerationCounts& counts) {
  return static_cast<double>(counts.drawn_tokens) / counts.seconds;
}

GenerationResult measure(GenerationSession& session, const GenerationLoad& load,
                         SweepTrace* trace) {
  const StopSignals stop;
  WorkProgress work;
  const WorkMeter meter(work, WorkMeter::Elsewhere::kLogged);
  GenerationLoad first = load;
  first.sequences = std::min(load.sequences, session.setup().sequences);
  first.drawn_tokens = std::min<std::int64_t>(load.drawn_tokens, 2);
  work.begin("warming up");
  log::info("warming up: {}", to_string(first));
  const double begin_s = steady_seconds();
  static_cast<void>(generate(session, first, stop, work, nullptr));
  log::info("warm after {:.1f} s; measuring {}, {} at once", steady_seconds() - begin_s,
            to_string(load), format_count(session.setup().sequences));
  work.begin("measuring",
             {static_cast<std::uint64_t>(load.sequences * load.drawn_tokens), "tokens"});
  GenerationResult result = generate(session, load, stop, work, trace);
  log::info("measured {:.1f} s, {} tokens/s", result.counts.seconds,
            format_count(std::llround(tokens_per_s(result.counts))));
  result.memory = {.device_planned = session.setup().device_bytes(),
                   .device_measured = session.device().device_bytes_in_use(),
                   .host_planned = session.setup().host_bytes(),
                   .host_peak = peak_resident_bytes()};
  return result;
}

nlohmann::json generation_json(const GenerationResult& r, const GenerationSession& session,
                               const GenerationLoad& load, const DeviceInfo& info,
                               const GenerationPrediction& p) {
  const GenerationSetup& setup = session.setup();
  const BuildInfo build = build_info();
  nlohmann::json json{{"version", build.version},
                      {"commit", build.commit},
                      {"device", info.name},
                      {"backend", info.backend},
                      {"dtype", name_of(setup.sizes.compute)},
                      {"kv_dtype", enum_name(kKvDTypeNames, setup.kv.kept)},
                      {"parameters", setup.spec.parameter_count()},
                      {"prompts", load.sequences},
                      {"prompt_tokens", load.prompt_tokens},
                      {"drawn_tokens", load.drawn_tokens},
                      {"sequences_at_once", setup.sequences},
                      {"layout", setup.to_string()},
                      {"generated_tokens", r.counts.drawn_tokens},
                      {"sweeps", r.counts.sweeps},
                      {"seconds", r.counts.seconds},
                      {"tokens_per_s", tokens_per_s(r.counts)},
                      {"first_token_s", r.first_token_s},
                      {"device_planned_bytes", r.memory.device_planned},
                      {"device_measured_bytes", r.memory.device_measured},
                      {"host_planned_bytes", r.memory.host_planned},
                      {"host_peak_bytes", r.memory.host_peak}};
  if (!p.unknown.empty()) {
    json["prediction"] = {{"unknown", p.unknown}};
    return json;
  }
  json["prediction"] = {{"rates", p.rates},
                        {"seconds", p.seconds},
                        {"tokens_per_s", p.tokens_per_s},
                        {"first_token_s", p.first_token_s},
                        {"sweeps", p.sweeps}};
  for (const Prediction::Part& part : p.critical) {
    json["prediction"]["critical"][part.name] = part.share;
  }
  return json;
}

void print_generation(const GenerationResult& r, const GenerationSession& session,
                      const GenerationLoad& load, const DeviceInfo& info,
                      const GenerationPrediction& p) {
  std::string text = fmt::format(
      "{} ({}), {} parameters in {}\n"
      "load            {}\n"
      "layout          {}\n"
      "time            {:.3f} s, first token after {:.3f} s, {} sweeps\n"
      "tokens/s        {}\n"
      "{}\n",
      info.name, info.backend, format_count(session.setup().spec.parameter_count()),
      name_of(session.setup().sizes.compute), to_string(load), session.setup().to_string(),
      r.counts.seconds, r.first_token_s, format_count(r.counts.sweeps),
      format_count(std::llround(tokens_per_s(r.counts))), to_string(r.memory));
  if (!session.choice_text().empty()) text += "choice          " + session.choice_text() + "\n";
  text += p.unknown.empty() ? fmt::format("prediction      {:.3f} s ({:.3f} of measured)\n",
                                          p.seconds, p.seconds / r.counts.seconds) +
                                  p.to_string()
                            : "prediction      unknown: " + p.unknown + "\n";
  std::fputs(text.c_str(), stdout);
}

}  // namespace

int bench_generation(const RunConfig& config, const BenchOptions& options) {
  require_built(config.run.backend, "run.backend");
  require_results_file(options);
  if (!options.trace.empty()) require_replaceable("--trace", options.trace, SweepTrace::kKeys);
  std::optional<SweepTrace> trace;
  if (!options.trace.empty()) trace.emplace();
  const GenerationJob& job = *options.generation;
  log::info("planning and allocating a model of {} parameters with random weights",
            format_count(config.model.llama.parameter_count()));
  const double begin_s = steady_seconds();
  GenerationSession session({.folder = {},
                             .command = "bench --generate",
                             .random_model = config.model.llama,
                             .backend = config.run.backend,
                             .dtype = config.run.dtype,
                             .threads = narrow<int>(config.run.threads),
                             .memory = config.memory,
                             .hardware = config.hardware,
                             .kernels = config.kernels,
                             .needs = needs_of(config, job),
                             .sequences = job.sequences,
                             .load = job.load,
                             .device = {.trace = trace ? &trace->recorder() : nullptr}});
  log::info("ready after {:.1f} s: {}", steady_seconds() - begin_s, session.setup().to_string());
  const DeviceInfo info = session.device().info();
  const GenerationResult result = measure(session, job.load, trace ? &*trace : nullptr);
  const GenerationPrediction prediction = session.predict();
  nlohmann::json json = generation_json(result, session, job.load, info, prediction);
  json.update(origin_of(config));
  const bool prints = write_results(options, json);
  if (prints) print_generation(result, session, job.load, info, prediction);
  if (trace) {
    trace->stop(session.device());
    const std::string text = trace->finish(options.trace);
    if (prints) std::fputs(text.c_str(), stdout);
  }
  return 0;
}

}  // namespace strata
