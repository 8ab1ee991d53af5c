// `bench` runs warm-up steps, the measured steps and two traced ones in one session, and sets
// figures, work and lanes beside those that are predicted. The JSON object holds all that the table
// prints.

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "commands/bench_json.h"
#include "commands/bench_results.h"
#include "commands/generation_job.h"
#include "strata/base/bytes.h"
#include "strata/base/log.h"
#include "strata/base/process.h"
#include "strata/base/text.h"
#include "strata/commands/commands.h"
#include "strata/launch/run_ranks.h"
#include "strata/predict/prediction.h"
#include "strata/train/measured_steps.h"
#include "strata/train/session.h"
#include "strata/train/step_report.h"

namespace strata {

namespace {

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

/// Returns a line for each lane, with what was predicted where that is known.
std::string lanes_text(const nlohmann::json& j) {
  std::string text;
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
  return text;
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
  text += lanes_text(j);
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
      nlohmann::json json = json_of(result, session, ranks.size());
      add_prediction(json, result, session, prediction, traced);
      json.update(origin_of(synthetic));
      // Last: a closed pipe may end the program here.
      if (write_results(options, json)) print_table(json, result, session);
      return 0;
    });
  });
}

}  // namespace strata
