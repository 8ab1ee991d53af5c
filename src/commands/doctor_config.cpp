// Each part of a run is asked by what a session asks itself, in the same order, so the errors are
// those that `train` would end with. What a part throws is its finding, and the others are looked
// at all the same, unless the config itself cannot be read.

#include "commands/doctor_config.h"

#include <memory>
#include <string>
#include <utility>

#include "commands/planned_machine.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/host_memory.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/base/thread_pool.h"
#include "strata/data/batch.h"
#include "strata/data/compatible.h"
#include "strata/launch/backend_choice.h"
#include "strata/model/families.h"
#include "strata/model/weights_check.h"
#include "strata/plan/choose_placement.h"
#include "strata/predict/prediction.h"
#include "strata/predict/stored_rates.h"
#include "strata/runfiles/named_adapter.h"
#include "strata/runfiles/run_folder.h"
#include "strata/runfiles/start_weights.h"
#include "strata/train/epochs.h"
#include "strata/train/save_room.h"
#include "strata/train/training_data.h"

namespace strata {

namespace {

/// Returns what `look` writes into a finding of this name, which is bad if it throws. Until then it
/// says what is looked at.
template <class Look>
Finding looked_at(std::string name, std::string what, Look&& look) {
  Finding finding{.name = std::move(name), .found = std::move(what)};
  try {
    std::forward<Look>(look)(finding);
  } catch (const Error& error) {
    finding.verdict = Verdict::kBad;
    finding.remedy = error.what();
  }
  return finding;
}

void warn(Finding& finding, const std::string& remedy) {
  finding.verdict = Verdict::kWarn;
  finding.remedy = remedy;
}

Finding examine_model(const RunConfig& config) {
  const ModelSection& model = config.model;
  const std::string of = format_count(model.llama.parameter_count()) + " parameters";
  if (model.path.empty()) return {.name = "model", .found = of + ", drawn by run.seed"};
  return looked_at("model", of + " from " + model.path, [&](Finding& finding) {
    const StartWeights start = open_start_weights(model);
    const ModelLayout layout = make_layout(spec_of(model.llama));
    const std::string unused = check_weights(start.files, layout);
    require_shapes(start.files, layout);
    if (!start.resized.empty()) finding.found += "; " + start.resized;
    check_start_adapter(config, make_layout(config.spec()));
    if (!unused.empty()) warn(finding, unused);
  });
}

/// Says how often the run reads its data, and whether tokens are those of the model. The config has
/// steps in place of epochs then.
Finding examine_data(RunConfig& config, int ranks) {
  return looked_at("data", "data.train", [&](Finding& finding) {
    config = with_steps_of_epochs(config, ranks);
    const std::optional<ReferenceWish> reference = reference_wish(config, {});
    const TrainingSet set = open_training_set(config, reference);
    const BatchOptions options = training_batches(config, 0, ranks);
    const ModelTokenizer tokenizer = tokenizer_of(config.model);
    for (const auto& source : set.sources) require_tokenizer_of(tokenizer, *source);
    ThreadPool pool(1);
    const BatchLoader loader(set.shares(), options, pool);
    loader.require_target(loader.samples());
    if (config.data.synthetic) {
      finding.found = "random tokens";
      return;
    }
    const double read = static_cast<double>(config.run.steps) *
                        static_cast<double>(loader.samples_per_step()) /
                        static_cast<double>(loader.samples());
    finding.found = fmt::format("{} rows of {} tokens, read {:.2f} times in {} steps",
                                format_count(loader.samples()), config.data.sequence_length, read,
                                format_count(config.run.steps));
    if (config.data.validation.empty()) return;
    const std::unique_ptr<TokenSource> validation = open_validation_set(config, reference);
    require_tokenizer_of(tokenizer, *validation);
    for (const auto& source : set.sources) require_same_tokenizer(*source, *validation);
    finding.found += ", validation on " + format_count(validation->size()) + " tokens";
  });
}

Finding examine_folder(const RunConfig& config) {
  return looked_at("run folder", config.run.output, [&](Finding& finding) {
    const std::unique_ptr<Files> files = make_system_files();
    for (const std::filesystem::path& saves : save_folders(config.run.output)) {
      static_cast<void>(has_save_folder(*files, saves));
    }
    const std::string held = run_in_folder(config.run.output);
    if (held.empty()) return;
    finding.found += " holds a run (" + held + ")";
    warn(finding, "--resume auto goes on with it, --overwrite replaces it; train refuses it else");
  });
}

/// The backend that `run.backend` stands for here.
BackendChoice backend_here(const RunConfig& config) {
  const BackendKind kind = backend_of(config.run.backend, config.run.dtype);
  return kind == BackendKind::kCuda ? BackendChoice::kCuda : BackendChoice::kCpu;
}

/// A rank of the run on this machine, as it is planned if nobody else uses that.
struct RankHere {
  std::string device;  ///< its name, to which `planned` refers
  PlannedRank planned{};
};

void plan_rank(const RunConfig& config, const PlanOptions& options, Ranks& ranks, RankHere& here) {
  const BackendChoice backend = backend_here(config);
  const DeviceInfo device = planned_device(backend, {});
  if (backend == BackendChoice::kCuda && device.name.empty()) {
    throw ConfigError("run.backend: there is no GPU that this program can use; set it to \"auto\"");
  }
  config.validate_for(backend, "on this machine");
  require_products(config.run.products, device);
  here.device = device.name;
  MachineMemory machine = planned_machine(backend, device);
  machine.ranks_on_host = ranks_on_host(options, ranks);
  machine.sharers = machine.ranks_on_host;
  machine.host = read_host_memory();
  here.planned = {
      .place = planned_place(config, options, ranks),
      .budget = make_budget(config.memory, machine),
      .device = here.device,
      .stored = find_stored_rates(config, here.device, planned_threads(config, options, ranks))};
}

std::string fit_text(const Setup& setup) {
  const auto of = [](std::size_t bytes, const std::optional<std::size_t>& limit) {
    return format_bytes(bytes) + (limit ? " of " + format_bytes(*limit) : std::string());
  };
  if (setup.budget.device_is_host) {
    return of(setup.host_bytes(), setup.budget.host_limit) + " on the host";
  }
  return of(setup.device_bytes(), setup.budget.device_limit) + " on the device, " +
         of(setup.host_bytes(), setup.budget.host_limit) + " on the host";
}

std::string speed_text(const Setup& setup, const std::string& device, std::int64_t steps) {
  const Prediction p = predict(setup, setup.rated(device));
  if (!p.unknown.empty()) return {};
  const auto count = static_cast<double>(steps);
  return fmt::format("; {} tokens/s are predicted, {} for {} steps",
                     format_count(static_cast<std::int64_t>(p.tokens_per_s)),
                     format_duration(p.mean_s(count) * count), format_count(steps));
}

/// What the run has on the disk at once if it begins: those that it keeps, and the one that it
/// writes.
SavedBytes saved_bytes(const RunConfig& config, const Setup& setup) {
  const SaveSizes sizes = save_sizes(setup);
  return {.one = sizes.whole,
          .all = bytes_of(most_more_saves(config.checkpoint, config.run.steps, {}), sizes)};
}

/// Also says what the run saves, whether it fits or not.
Finding examine_memory(const RunConfig& config, const PlanOptions& options, Ranks& ranks,
                       std::optional<SavedBytes>& saves) {
  return looked_at("memory of the run", "cannot be planned", [&](Finding& finding) {
    RankHere here;
    plan_rank(config, options, ranks, here);
    const auto placed = [&] {
      try {
        const Setup by_rule = plan_setup(config, choices_by_rule(config), here.planned);
        if (by_rule.saves) saves = saved_bytes(config, by_rule);
        return choose_placement(config, here.planned).setup;
      } catch (const OutOfMemory&) {
        finding.found = "does not fit";
        throw;
      }
    };
    const Setup setup = placed();
    finding.found = fit_text(setup) + speed_text(setup, here.device, config.run.steps);
    for (const std::string& warning : {setup.host_warning(), setup.speculation_warning()}) {
      if (!warning.empty()) warn(finding, warning);
    }
  });
}

}  // namespace

ExaminedRun examine_run(const DoctorRun& run) {
  ExaminedRun examined;
  std::optional<RunConfig> config;
  examined.findings.push_back(looked_at("config", run.file, [&](Finding& finding) {
    config = run.load();
    finding.found += ": every key is right";
  }));
  if (!config) return examined;
  examined.folder = save_folders(config->run.output)[0];
  const std::unique_ptr<Ranks> ranks = planned_ranks("doctor", run.plan);
  examined.findings.push_back(examine_model(*config));
  examined.findings.push_back(examine_data(*config, ranks->size()));
  examined.findings.push_back(examine_memory(*config, run.plan, *ranks, examined.saves));
  examined.findings.push_back(examine_folder(*config));
  return examined;
}

}  // namespace strata
