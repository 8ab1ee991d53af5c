// `plan` makes the setup that a run would make, on a machine of which it knows the GPU's name and
// limits, and prints its bytes, its blocks, what was chosen and what is predicted. The ranks may be
// those of a launcher, of which rank 0 prints, or exist on paper only (--ranks).

#include <fmt/core.h>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "commands/generation_job.h"
#include "commands/plan_json.h"
#include "commands/planned_machine.h"
#include "strata/base/error.h"
#include "strata/base/host_memory.h"
#include "strata/base/text.h"
#include "strata/base/work_meter.h"
#include "strata/commands/commands.h"
#include "strata/launch/rank_agreement.h"
#include "strata/launch/run_ranks.h"
#include "strata/plan/budget.h"
#include "strata/plan/choose_placement.h"
#include "strata/predict/prediction.h"
#include "strata/predict/save_prediction.h"
#include "strata/predict/stored_rates.h"
#include "strata/train/epochs.h"

namespace strata {

namespace {

/// Returns a line about what a save takes; empty if the run saves none.
std::string save_text(const Setup& setup, const std::string& device) {
  if (!setup.saves) return {};
  return predict_save(setup, setup.rated(device), setup.hardware.disk_gbs).to_string();
}

/// Returns what is planned and what is predicted of it, showing how long that takes.
std::pair<Placement, Prediction> placed(const RunConfig& config, const PlannedRank& planned) {
  WorkProgress work;
  work.begin("predicting steps");
  const WorkMeter meter(work);
  Placement placement = choose_placement(config, planned);
  Prediction prediction = predict(placement.setup, placement.setup.rated(planned.device));
  return {std::move(placement), std::move(prediction)};
}

/// A run whose steps are known, as far as its data are here, and what is said of its epochs.
struct Length {
  RunConfig config;
  std::string text;
  bool known = true;
};

/// A plan needs no data, which may lie on another machine.
Length length_of(const RunConfig& config, int ranks) {
  Length length{.config = config, .text = {}};
  if (config.data.synthetic) {  // of which nobody need have said how long it is
    length.known = config.run.steps != RunSection().steps;
    return length;
  }
  try {
    length.config = with_steps_of_epochs(config, ranks);
    const std::string text = epochs_text(length.config, open_training_set(length.config), ranks);
    length.text = "length: " + text + "\n";
  } catch (const IoError& absent) {
    if (config.run.epochs) {
      length.known = false;
      length.text = fmt::format("length: {} epochs, whose steps are not known here: {}\n",
                                *config.run.epochs, absent.what());
    }
  }
  return length;
}

/// Returns a line about how long the run takes; empty if its steps or their time are not known.
std::string run_text(const Length& run, const Prediction& prediction) {
  if (!run.known || !prediction.unknown.empty()) return {};
  const auto steps = static_cast<double>(run.config.run.steps);
  return fmt::format("predicted run: {} steps in {}, without validation, samples and saves\n",
                     format_count(run.config.run.steps),
                     format_duration(steps * prediction.mean_s(steps)));
}

/// Plans for the rank that this is, and has rank 0 print it.
int plan_training(const RunConfig& given, const PlanOptions& options, Ranks& ranks) {
  const Length run = length_of(given, ranks.size());
  const RunConfig& config = run.config;
  const BackendChoice backend = planned_backend(config);
  const DeviceInfo device = planned_device(backend, options.gpu);
  MachineMemory machine = planned_machine(backend, device);
  machine.ranks_on_host = ranks_on_host(options, ranks);
  // Of another machine, which has the GPU that is named, nothing is known but what the config says.
  if (options.ranks_per_node && options.gpu.empty()) {
    machine.host = read_host_memory();
    machine.sharers = *options.ranks_per_node;
  }
  const Budget budget = make_budget(config.memory, machine);
  const std::optional<std::int64_t> threads = planned_threads(config, options, ranks);
  const PlannedRank planned{.place = planned_place(config, options, ranks),
                            .budget = budget,
                            .device = device.name,
                            .stored = find_stored_rates(config, device.name, threads)};
  std::optional<std::pair<Placement, Prediction>> plan;
  const auto place = [&] { plan = placed(config, planned); };
  options.ranks ? place() : fail_together(ranks, place);
  if (ranks.rank() != 0) return 0;
  const auto& [placement, prediction] = *plan;
  const Setup& setup = placement.setup;
  if (!options.json.empty()) {
    nlohmann::ordered_json json = json_head(device.name, ranks.size());
    json["parameters"] = setup.spec.parameter_count();
    json["steps"] = config.run.steps;
    json["step_tokens"] = config.step_tokens(ranks.size());
    json.update(json_of(config, placement));
    json["prediction"] = json_of(prediction);
    write_json(json, options.json);
    if (options.json == kStandardOutput) return 0;
  }
  const std::string text = device_text(device) + run.text + setup.to_string() + "blocks:\n" +
                           setup.blocks_text() + placement.to_string() + prediction.to_string() +
                           run_text(run, prediction) + save_text(setup, device.name);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace

int plan_command(const RunConfig& config, const PlanOptions& options) {
  if (options.generation) return plan_generation(config, options);
  const std::unique_ptr<Ranks> ranks = planned_ranks("plan", options);
  const auto plan = [&] { return plan_training(config, options, *ranks); };
  return options.ranks ? plan() : end_together(*ranks, plan);  // --ranks are on paper
}

}  // namespace strata
