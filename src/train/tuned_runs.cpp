// Each candidate has a session of its own, which is gone before the next one begins.

#include "strata/train/tuned_runs.h"

#include <filesystem>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/benchmark/figures.h"
#include "strata/predict/prediction.h"
#include "strata/predict/stored_rates.h"
#include "strata/train/measured_steps.h"

namespace strata {

TunedRun measure_tuned(const RunConfig& config, std::int64_t steps, Ranks& ranks) {
  RunConfig run = config;
  run.model.path.clear();  // speed does not depend on the weights, and reading them takes minutes
  if (run.adapter) run.adapter->path.clear();
  run.run.steps = steps;
  run.run.sample_every = 0;
  run = synthetic_run(run, run.run.steps);
  Recorder recorder;
  Session session(run, ranks, {.trace = &recorder});
  const MeasuredSteps measured = measure_steps(session, recorder, steps);
  const std::string device = session.device().info().name;
  const Prediction predicted = predict(session.setup(), session.setup().rated(device));
  const double step_s = median(measured.step_s);
  return {.keys = TuneKeys::of(config),
          .predicted_s = predicted.step_s,
          .step_s = step_s,
          .tokens_per_s = static_cast<double>(session.global_tokens_per_step()) / step_s,
          .rates = rates_seen(measured, session),
          .device = device,
          .threads = threads_alone(config),
          .unsteady = unsteadiness(measured.step_s, measured.traced_s)};
}

std::string store_seen_rates(const RunConfig& config, const TunedRun& run) {
  const std::filesystem::path file = stored_rates_file(config.kernels, run.device);
  if (file.empty()) {
    return "the rates that were seen are not stored: kernels.plan_cache is empty, or there is no "
           "cache folder\n";
  }
  if (!run.unsteady.empty()) {
    log::warn(
        "the rates that were seen are not stored: {}; measure again while nothing else runs here, "
        "with more --steps",
        run.unsteady);
    return {};
  }
  try {
    save_rates(run.device, run.rates, run.threads, file);
  } catch (const Error& error) {
    log::warn("{}; later predictions do without the rates that were seen (kernels.plan_cache)",
              error.what());
    return {};
  }
  return "rates of " + run.device + " as seen are stored in " + file.string() +
         "; predictions use them from now on (hardware.stored_rates=false: they do not)\n";
}

}  // namespace strata
