// `tune` searches, prints what it took for granted and the best it found, and writes a config. With
// --measure it also runs the best ones; where nobody knows the rates of the device, one run that
// fits tells them before the search.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands/plan_json.h"
#include "commands/planned_machine.h"
#include "commands/tune_page.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/host_memory.h"
#include "strata/base/json.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/base/thread_pool.h"
#include "strata/base/work_meter.h"
#include "strata/commands/commands.h"
#include "strata/config/assignments.h"
#include "strata/device/device.h"
#include "strata/launch/backend_choice.h"
#include "strata/launch/run_ranks.h"
#include "strata/ops/attention_kernels.h"
#include "strata/plan/tune.h"
#include "strata/plan/tune_model.h"
#include "strata/predict/rate_keys.h"
#include "strata/predict/stored_rates.h"
#include "strata/train/next_step.h"
#include "strata/train/tuned_runs.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

/// Throws ConfigError if the file is there and may not be replaced, or its folder is not there.
void require_new(const TuneOptions& options) {
  std::error_code ignored;
  if (options.output.empty()) return;
  if (!fs::exists(options.output, ignored)) {
    const fs::path folder = options.output.parent_path();
    if (folder.empty() || fs::is_directory(folder, ignored)) return;
    throw ConfigError("--output: there is no folder " + folder.string() +
                      "; make it, or name another file");
  }
  if (options.overwrite && fs::is_regular_file(options.output, ignored)) return;
  throw ConfigError("--output: " + options.output.string() +
                    (options.overwrite ? " is there and no file; name another one"
                                       : " is there; add --overwrite, or name another file"));
}

/// The machine and the ranks that are tuned for.
struct Target {
  Ranks& ranks;
  DeviceInfo device;
  PlannedRank planned;
};

/// Returns what the options say of the machine, and else what this one has.
Target target_of(const RunConfig& config, const TuneOptions& options, Ranks& ranks) {
  Target target{.ranks = ranks, .device = {}, .planned = {}};
  if (options.measure > 0 && ranks.size() > 1) {
    throw ConfigError("--measure: runs one rank; leave out --ranks and the launcher");
  }
  if (options.measure > 0 && !options.plan.gpu.empty()) {
    throw ConfigError("--measure: runs on this machine; leave out --gpu");
  }
  const BackendChoice backend = planned_backend(config);
  target.device = planned_device(backend, options.plan.gpu);
  MachineMemory machine = planned_machine(backend, target.device);
  machine.ranks_on_host = ranks_on_host(options.plan, target.ranks);
  if (!config.memory.host_limit) {
    machine.host = read_host_memory();
    machine.sharers = machine.ranks_on_host;
  }
  target.planned = {.place = planned_place(config, options.plan, target.ranks),
                    .budget = make_budget(config.memory, machine),
                    .device = {}};
  const std::optional<std::int64_t> threads = planned_threads(config, options.plan, target.ranks);
  if (target.ranks.rank() == 0) {
    target.planned.stored = find_stored_rates(config, target.device.name, threads);
  }
  return target;
}

/// Returns whether a run on this machine would tell what a prediction lacks.
bool can_be_learnt(const RunConfig& config, const TuneOptions& options) {
  return options.plan.gpu.empty() && config.run.dtype == DType::kBF16 &&
         config.kernels.attention == AttentionKernels::kAuto;
}

/// Throws ConfigError where no step can be predicted, with why, the keys and the way to learn them.
[[noreturn]] void refuse_unknown(const RunConfig& config, const TuneOptions& options,
                                 const std::string& unknown) {
  const bool learn = options.measure == 0 && can_be_learnt(config, options);
  throw ConfigError("tune ranks by predicted time, and none can be predicted: " + unknown +
                    (learn ? "; or let a run on this machine tell them (--measure 1)" : ""));
}

/// Runs a candidate whose updates are on the host, where it fits so: only then the host's rate is
/// seen.
TunedRun run_to_learn(const RunConfig& config, const TuneOptions& options, Ranks& ranks) {
  if (!config.schedule.resident_units) {
    RunConfig on_host = config;
    on_host.schedule.resident_units = 0;
    try {
      return measure_tuned(on_host, options.steps, ranks);
    } catch (const OutOfMemory& error) {
      log::debug("with all state on the host: {}", error.what());
    }
  }
  return measure_tuned(config, options.steps, ranks);
}

/// Runs one candidate that fits, so that rates are known, and stores them. This search goes by them
/// also where they are not worth keeping.
StoredRates learn_rates(const TuneModel& model, const TuneResult& result,
                        const TuneOptions& options, Ranks& ranks) {
  const TunePage page(options);
  page.print("no rates are known of this device: one run tells them\n");
  const TunedRun run = run_to_learn(result.to_learn_from->put_into(model.base), options, ranks);
  page.print(store_seen_rates(model.base, run));
  StoredRates known = find_stored_rates(model.base, run.device, run.threads)
                          .value_or(StoredRates{.device = run.device,
                                                .where = "this machine",
                                                .date = "now",
                                                .threads = run.threads,
                                                .rates = {}});
  for (const RateKey& key : kRateKeys) {
    if (run.rates.*key.given) known.rates.*key.given = run.rates.*key.given;
  }
  return known;
}

/// Runs the best candidates, chooses one, stores the rates that it had and returns its keys. One
/// that finds less memory than was planned is told and left out. Throws OutOfMemory if none ran.
TuneKeys measure_best(const TuneResult& result, const RunConfig& base, const TuneOptions& options,
                      Ranks& ranks) {
  std::string text = measured_head(options.steps);
  const TunePage page(options);
  std::vector<TunedRun> runs;
  std::string refusal;
  const auto count = std::min(result.best.size(), static_cast<std::size_t>(options.measure));
  for (std::size_t i = 0; i < count; ++i) {
    try {
      runs.push_back(measure_tuned(result.best[i].config, options.steps, ranks));
      text += measured_text(i + 1, runs.back());
    } catch (const OutOfMemory& error) {
      refusal = error.what();
      text += fmt::format("{:>2} does not fit here: {}\n", i + 1, refusal);
    }
    page.print(std::exchange(text, {}));
  }
  if (runs.empty()) throw OutOfMemory(refusal);
  // A few steps tell no smaller differences: among them the order of the predictions stays.
  constexpr double kTold = 1.01;
  const double fastest_s = std::ranges::min(runs, {}, &TunedRun::step_s).step_s;
  const TunedRun& best = *std::ranges::find_if(
      runs, [&](const TunedRun& run) { return run.step_s <= kTold * fastest_s; });
  page.print(store_seen_rates(base, best));
  return best.keys;
}

/// Returns the keys of a config that were found, by their paths.
nlohmann::ordered_json found_keys(const RunConfig& base, const RunConfig& found) {
  nlohmann::ordered_json keys = nlohmann::ordered_json::object();
  const std::vector<std::string> differing = differing_fields(base, found);
  for (const FieldText& field : field_texts(found)) {
    if (std::ranges::find(differing, field.path) == differing.end()) continue;
    keys[field.path] = parse_json<nlohmann::ordered_json>(field.value);
  }
  return keys;
}

/// Returns what was found, for programs.
nlohmann::ordered_json tune_json(const TuneResult& result, const TuneModel& model,
                                 const Target& target, const TuneKeys& chosen) {
  nlohmann::ordered_json json = json_head(target.device.name, target.planned.place.world());
  json["candidates"] = result.candidates;
  json["fitting"] = result.fitting;
  json["placed"] = result.placed;
  json["best"] = nlohmann::ordered_json::array();
  for (const Tuned& tuned : result.best) {
    const Setup& setup = tuned.placement.setup;
    json["best"].push_back({{"keys", found_keys(model.given, tuned.keys.put_into(model.given))},
                            {"device_bytes", setup.device_bytes()},
                            {"host_bytes", setup.host_bytes()},
                            {"prediction", json_of(tuned.prediction)}});
  }
  json["options"] = model.option_sets;
  json["chosen"] = found_keys(model.given, chosen.put_into(model.given));
  return json;
}

/// Searches, and learns rates from a run first if they are unknown and runs may be made. Throws
/// ConfigError if no step can be predicted.
TuneResult search_best(const TuneOptions& options, const TuneModel& model, const TuneSpace& space,
                       Target& target) {
  ThreadPool pool(options.threads);
  TuneLimits limits;
  limits.shown = std::max(limits.shown, static_cast<std::size_t>(options.measure));
  limits.placed = std::max(limits.placed, limits.shown);
  const auto search = [&] {
    WorkProgress work;
    const WorkMeter meter(work);
    return tune(model.base, space, target.planned, pool, limits, &work);
  };
  TuneResult result = search();
  if (result.unknown.empty()) return result;
  if (options.measure == 0 || !can_be_learnt(model.base, options)) {
    refuse_unknown(model.base, options, result.unknown);
  }
  target.planned.stored = learn_rates(model, result, options, target.ranks);
  result = search();
  if (!result.unknown.empty()) refuse_unknown(model.base, options, result.unknown);
  return result;
}

/// Writes the config if --output names a file. Returns a line that says how a run begins with it,
/// or nothing.
std::string write_config(const TuneOptions& options, const TuneModel& model,
                         const TuneKeys& chosen) {
  if (options.output.empty()) return {};
  save_run_config(chosen.put_into(model.given), options.output);
  const bool has_data = !model.given.data.train.empty() || model.given.data.synthetic;
  return "written: " + printable_name(options.output.string()) + "; strata train " +
         printable_name(shell_word(options.output)) + (has_data ? "" : " --set data.train=FILE") +
         " trains with it\n";
}

/// Searches on rank 0 and prints what it found.
int search_and_print(const TuneOptions& options, const TuneModel& model, Target& target) {
  const TuneSpace space = tune_space(model, options.request, target.planned.place.world());
  if (target.ranks.rank() != 0) return 0;
  const TunePage page(options);
  // Those of other GPUs are planned on paper.
  if (space.products && options.plan.gpu.empty()) {
    require_products(Products::kFp8, target.device, "leave out --allow run.products");
  }
  page.print(premises_text(model, space, target.device, target.planned));
  const TuneResult result = search_best(options, model, space, target);
  page.print(found_text(result));
  TuneKeys chosen = result.best.front().keys;
  if (options.measure > 0) chosen = measure_best(result, model.base, options, target.ranks);
  page.print(chosen_text(model, space, chosen));
  if (!options.plan.json.empty()) {
    write_json(tune_json(result, model, target, chosen), options.plan.json);
  }
  page.print(write_config(options, model, chosen));
  if (options.output.empty()) {
    say_next("the same command with --output FILE writes this as a config to train with");
  }
  return 0;
}

}  // namespace

int tune_command(const TuneOptions& options) {
  require_new(options);
  const TuneModel model = load_tune_model(options.request);
  const std::unique_ptr<Ranks> ranks = planned_ranks("tune", options.plan);
  const auto search = [&] {
    Target target = target_of(model.base, options, *ranks);
    target.planned.device = target.device.name;
    return search_and_print(options, model, target);
  };
  return options.plan.ranks ? search() : end_together(*ranks, search);  // --ranks are on paper
}

}  // namespace strata
