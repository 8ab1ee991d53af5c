// `bench` runs warm-up steps, the measured steps and two traced ones in one session, and sets
// figures, work and lanes beside those that are predicted. The JSON object holds all that the table
// prints.

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "commands/bench_results.h"
#include "commands/generation_job.h"
#include "strata/base/bytes.h"
#include "strata/base/log.h"
#include "strata/base/process.h"
#include "strata/base/text.h"
#include "strata/base/version.h"
#include "strata/benchmark/figures.h"
#include "strata/commands/commands.h"
#include "strata/launch/run_ranks.h"
#include "strata/predict/prediction.h"
#include "strata/predict/rate_keys.h"
#include "strata/predict/utilisation.h"
#include "strata/train/measured_steps.h"
#include "strata/train/session.h"
#include "strata/train/step_report.h"

namespace strata {

namespace {

/// How MFU is worked out, in the words of the JSON's keys.
constexpr const char* kMfuFormula = "flops_per_token * tokens_per_s / (peak_tflops * 1e12 * ranks)";

/// Returns everything that was measured, with the setup that it was measured on.
nlohmann::json to_json(const MeasuredSteps& r, Session& session, int ranks) {
  const RunConfig& config = session.config();
  const std::int64_t sequence = config.data.sequence_length;
  const double model = flops_per_token(session.setup().spec, sequence);
  const double recompute = session.setup().recompute_flops_per_token();
  const double tokens_per_s = static_cast<double>(session.global_tokens_per_step()) / r.mean_s;
  const DevicePeak peak = device_peak(session);
  const std::optional<double> mfu =
      model_flops_utilisation(model, tokens_per_s, peak.tflops, ranks);
  const std::optional<double> hfu =
      model_flops_utilisation(model + recompute, tokens_per_s, peak.tflops, ranks);
  const DeviceInfo info = session.device().info();
  const BuildInfo build = build_info();
  nlohmann::json json{{"version", build.version},
                      {"commit", build.commit},
                      {"device", info.name},
                      {"backend", info.backend},
                      {"ranks", ranks},
                      {"parameters", config.model.llama.parameter_count()},
                      {"sequence_length", sequence},
                      {"tokens_per_step", session.global_tokens_per_step()},
                      {"steps", r.step_s.size()},
                      {"step_s_mean", r.mean_s},
                      {"step_s_median", median(r.step_s)},
                      {"step_s_each", r.step_s},
                      {"tokens_per_s", tokens_per_s},
                      {"targets_per_s", static_cast<double>(r.targets) /
                                            (r.mean_s * static_cast<double>(r.step_s.size()))},
                      {"flops_per_token", model},
                      {"recompute_flops_per_token", recompute},
                      {"tflops", model * tokens_per_s * 1e-12},
                      {"mfu", nullptr},
                      {"mfu_attended", nullptr},
                      {"hfu", nullptr},
                      {"peak_tflops", nullptr},
                      {"mfu_formula", kMfuFormula},
                      {"weights_in_bytes", r.link.weights_in},
                      {"activations_in_bytes", r.link.activations_in},
                      {"out_bytes", r.link.out},
                      {"state_bytes", r.link.state},
                      {"device_planned_bytes", r.memory.device_planned},
                      {"device_measured_bytes", r.memory.device_measured},
                      {"host_planned_bytes", r.memory.host_planned},
                      {"host_peak_bytes", r.memory.host_peak},
                      {"races", r.races}};
  if (mfu) json["mfu"] = *mfu;
  if (const auto attended =
          model_flops_utilisation(flops_per_token(session.setup().spec, sequence, r.attended),
                                  tokens_per_s, peak.tflops, ranks)) {
    json["mfu_attended"] = *attended;
  }
  if (hfu) json["hfu"] = *hfu;
  if (peak.tflops > 0) {
    json["peak_tflops"] = peak.tflops;
    json["peak_origin"] = peak.origin;
  }
  if (const std::string warning = peak_warning(mfu, peak); !warning.empty()) {
    json["mfu_warning"] = warning;
  }
  json["activations_kept"] = session.setup().kept_text();
  json["activations_spilled"] = session.setup().spilled_text();
  json["training_state"] = session.setup().state_text();
  json["resident_units"] = session.setup().choices.resident_units;
  json["passes"] = config.schedule.passes;
  if (config.optimizer.timing == UpdateTiming::kSpeculative) {
    json["speculated_units"] = session.setup().speculated_units();
    json["missed_steps"] = r.missed;
  }
  for (const KeepLevel level : kKeepLevels) {
    json["kept_cells"][std::string(name_of(level))] = session.setup().kept.count(level);
    json["spilled_cells"][std::string(name_of(level))] = session.setup().kept.count_spilled(level);
  }
  for (const LaneReport& lane : r.lanes) {
    json["lanes"][lane.lane] = {{"busy_s", lane.busy_s}, {"exposed_s", lane.exposed_s}};
  }
  json["updates"] = {{"busy_s", r.updates.busy_s},
                     {"exposed_s", r.updates.exposed_s},
                     {"hidden", r.updates.hidden()}};
  json["choices"] = nlohmann::json::array();
  for (const PlacementChoice& choice : session.choices()) {
    json["choices"].push_back({{"key", choice.key},
                               {"value", choice.value},
                               {"step_s", choice.step_s},
                               {"other", choice.other},
                               {"other_s", choice.other_s}});
  }
  for (const auto& [name, seconds] : parts_of(session.startup())) {
    json[std::string(name)] = seconds;
  }
  return json;
}

/// Adds what is predicted beside what was measured, for the step, its lanes and its work, and the
/// rates that the measured work had.
void add_prediction(nlohmann::json& json, const MeasuredSteps& r, const Session& session,
                    const Prediction& p, const PredictedTrace& traced) {
  for (const WorkReport& work : r.work) {
    nlohmann::json entry{{"lane", work.lane},     {"name", work.name},
                         {"flops", work.flops},   {"bytes", work.bytes},
                         {"count", work.count},   {"measured_s", work.busy_s},
                         {"predicted_s", nullptr}};
    for (const WorkReport& other : traced.work) {
      const bool same = other.lane == work.lane && other.name == work.name &&
                        other.kind == work.kind && other.flops == work.flops;
      if (same) entry["predicted_s"] = other.busy_s;
    }
    json["work"].push_back(std::move(entry));
  }
  const HardwareSection hardware = rates_seen(r, session);
  for (const RateKey& key : kRateKeys) {
    if (const std::optional<double>& rate = hardware.*key.given) {
      json["hardware"][std::string(key.key)] = *rate;
    }
  }
  if (!p.unknown.empty()) {
    json["prediction"] = {{"unknown", p.unknown}};
    return;
  }
  json["prediction"] = {{"rates", p.rates},
                        {"step_s", p.step_s},
                        {"step_s_mean", p.mean_s(static_cast<double>(r.step_s.size()))},
                        {"tokens_per_s", p.tokens_per_s},
                        {"mfu", nullptr}};
  nlohmann::json& prediction = json["prediction"];
  if (p.mfu) prediction["mfu"] = *p.mfu;
  for (const Prediction::Part& part : p.critical) prediction["critical"][part.name] = part.share;
  for (const LaneReport& lane : traced.lanes) {
    prediction["lanes"][lane.lane] = {{"busy_s", lane.busy_s}, {"exposed_s", lane.exposed_s}};
  }
}

/// Returns the table's line about the prediction.
std::string prediction_text(const nlohmann::json& j) {
  const nlohmann::json& p = j["prediction"];
  if (p.contains("unknown")) return "prediction      unknown: " + p["unknown"].get<std::string>();
  const auto compare = [&](const char* key, const char* measured) {
    const double predicted = p[key].get<double>();
    return fmt::format("{:.4f} s ({:.3f} of measured)", predicted,
                       predicted / j[measured].get<double>());
  };
  std::string text =
      fmt::format("prediction      mean {}, step amid many {}; bound by",
                  compare("step_s_mean", "step_s_mean"), compare("step_s", "step_s_median"));
  constexpr double kWorthAWord = 0.005;
  for (const auto& [lane, share] : p["critical"].items()) {
    if (share >= kWorthAWord) text += fmt::format(" {} {:.0f} %", lane, 100 * share.get<double>());
  }
  return text + "; rates of " + p["rates"].get<std::string>();
}

void print_table(const nlohmann::json& j, const MeasuredSteps& r, const Session& session) {
  const auto percent = [&](const char* key) {
    return j[key].is_null() ? std::string("unknown (set hardware.peak_tflops)")
                            : fmt::format("{:.1f} %", 100.0 * j[key].get<double>());
  };
  const std::string of_peak =
      j["peak_tflops"].is_null()
          ? std::string()
          : fmt::format(" = {} with {:.4g} TFLOP/s of {}", kMfuFormula,
                        j["peak_tflops"].get<double>(), j["peak_origin"].get<std::string>());
  const auto bytes = [&](const char* key) { return format_bytes(j[key].get<std::size_t>()); };
  std::string text = fmt::format(
      "{} ({}), {} rank(s), {} parameters\n"
      "step            mean {:.4f} s, median {:.4f} s over {} steps of {} tokens\n"
      "tokens/s        {}\n"
      "targets/s       {}\n"
      "model FLOP/s    {:.2f} TFLOP/s\n"
      "MFU             {}{}\n"
      "  attended      {} (without the part of attention that document masks leave out)\n"
      "HFU             {}\n"
      "kept            {}\n"
      "spilled         {}\n"
      "training state  {}\n"
      "link, in        {} weights, {} activations a step\n"
      "link, out       {} gradients and activations a step\n"
      "link, each way  {} state a step\n"
      "{}\n",
      j["device"].get<std::string>(), j["backend"].get<std::string>(), j["ranks"].get<int>(),
      format_count(j["parameters"].get<std::int64_t>()), j["step_s_mean"].get<double>(),
      j["step_s_median"].get<double>(), j["steps"].get<int>(),
      format_count(j["tokens_per_step"].get<std::int64_t>()),
      format_count(static_cast<std::int64_t>(j["tokens_per_s"].get<double>())),
      format_count(static_cast<std::int64_t>(j["targets_per_s"].get<double>())),
      j["tflops"].get<double>(), percent("mfu"), of_peak, percent("mfu_attended"), percent("hfu"),
      j["activations_kept"].get<std::string>(), j["activations_spilled"].get<std::string>(),
      j["training_state"].get<std::string>(), bytes("weights_in_bytes"),
      bytes("activations_in_bytes"), bytes("out_bytes"), bytes("state_bytes"), to_string(r.memory));
  for (const auto& [lane, times] : j["lanes"].items()) {
    text += fmt::format("lane {:<15} busy {:.3f} s, exposed {:.3f} s a step", lane,
                        times["busy_s"].get<double>(), times["exposed_s"].get<double>());
    if (j["prediction"].contains("lanes")) {
      const nlohmann::json& predicted = j["prediction"]["lanes"][lane];
      text += fmt::format("; predicted {:.3f} and {:.3f}", predicted["busy_s"].get<double>(),
                          predicted["exposed_s"].get<double>());
    }
    text += "\n";
  }
  text += fmt::format("updates              {}\n", to_string(r.updates));
  text += fmt::format("start                {}\n", to_string(session.startup()));
  if (j.contains("missed_steps")) {
    text += fmt::format("speculation     {} of {} steps missed\n", j["missed_steps"].get<int>(),
                        j["steps"].get<int>());
  }
  for (const PlacementChoice& choice : session.choices()) {
    text += "choice          " + choice.to_string() + "\n";
  }
  text += prediction_text(j) + "\nrates          ";
  for (const auto& [key, rate] : j["hardware"].items()) {
    text += fmt::format(" hardware.{}={:.4g}", key, rate.get<double>());
  }
  text += " (as traced)\n";
  if (j.contains("mfu_warning")) text += j["mfu_warning"].get<std::string>() + "\n";
  text += fmt::format("races in the traced steps: {}\n", j["races"].get<int>());
  std::fputs(text.c_str(), stdout);
}

}  // namespace

int bench_command(const LoadConfig& load, const BenchOptions& options) {
  if (options.generation) return bench_generation(load(), options);
  return on_all_ranks("bench", load, [&](Ranks& ranks, const RunConfig& config) {
    const RunConfig synthetic =
        synthetic_run(config, options.steps_told ? config.run.steps : kBenchSteps);
    if (ranks.rank() == 0) require_results_file(options);
    Recorder recorder;
    const LlamaConfig& model = synthetic.model.llama;
    log::info("planning and allocating a model of {} parameters in {} layer(s)",
              format_count(model.parameter_count()), model.num_hidden_layers);
    const double begin_s = steady_seconds();
    Session session(synthetic, ranks, {.trace = &recorder});
    log::info("ready after {:.1f} s, with {} on the device and {} on the host",
              steady_seconds() - begin_s, format_bytes(session.setup().device_bytes()),
              format_bytes(session.setup().host_bytes()));
    return end_together(ranks, [&] {
      const MeasuredSteps result = measure_steps(session, recorder, synthetic.run.steps);
      const std::string device = session.device().info().name;
      const RatedDevice rated = session.setup().rated(device);
      const Prediction prediction = predict(session.setup(), rated);
      const PredictedTrace traced = predict_trace(session.setup(), rated);
      if (ranks.rank() != 0) return 0;
      nlohmann::json json = to_json(result, session, ranks.size());
      add_prediction(json, result, session, prediction, traced);
      json.update(origin_of(synthetic));
      // Last: a closed pipe may end the program here.
      if (write_results(options, json)) print_table(json, result, session);
      return 0;
    });
  });
}

}  // namespace strata
