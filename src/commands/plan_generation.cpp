// A load is laid out as a session would lay it out, for a machine that need not be here.

#include <cstdio>
#include <string>

#include "commands/generation_job.h"
#include "commands/planned_machine.h"
#include "strata/base/error.h"
#include "strata/base/text.h"
#include "strata/complete/sequence_length.h"
#include "strata/plan/choose_generation.h"
#include "strata/predict/stored_rates.h"

namespace strata {

GenerationNeeds needs_of(const RunConfig& config, const GenerationJob& job) {
  const LlamaConfig& model = config.model.llama;
  const std::int64_t context = job.load.prompt_tokens + job.load.drawn_tokens;
  if (context > model.context_limit()) {
    throw ConfigError(too_few_positions(context, model.context_limit(),
                                        "lower --prompt-tokens or --max-tokens",
                                        model.context_limit_name()));
  }
  return {.compute = config.run.dtype, .kv_dtype = job.kv_dtype, .context = context};
}

std::string to_string(const GenerationLoad& load) {
  const auto counted = [](std::int64_t count, const std::string& what) {
    return format_count(count) + " " + what + (count == 1 ? "" : "s");
  };
  return counted(load.sequences, "prompt") + " of " + counted(load.prompt_tokens, "token") + ", " +
         format_count(load.drawn_tokens) + " drawn after " + (load.sequences == 1 ? "it" : "each");
}

int plan_generation(const RunConfig& config, const PlanOptions& options) {
  if (planned_ranks("plan", options)->size() > 1) {
    throw ConfigError(
        "--ranks: generation runs on one rank; leave it out, and the launcher as well");
  }
  const BackendChoice backend = planned_backend(config);
  if (backend == BackendChoice::kCuda && config.run.dtype == DType::kF64) {
    throw ConfigError(
        "run.dtype: f64 is for run.backend \"cpu\"; take \"bf16\" or \"f32\" for a GPU");
  }
  const DeviceInfo device = planned_device(backend, options.gpu);
  const Budget budget = make_budget(config.memory, planned_machine(backend, device));
  const std::unique_ptr<Ranks> alone = make_self_ranks();
  const std::optional<std::int64_t> threads = planned_threads(config, options, *alone);
  const GenerationJob& job = *options.generation;
  const GenerationChoice choice = choose_generation(
      config.model.llama,
      {.needs = needs_of(config, job), .sequences = job.sequences, .load = job.load}, budget,
      {device.name, config.hardware, find_stored_rates(config, device.name, threads)});
  const GenerationSetup& setup = choice.setup;
  std::string text =
      (device.name.empty() ? std::string() : device_text(device)) + setup.plan.to_string() +
      totals_text(setup.device_bytes(), setup.host_bytes(), budget) + setup.to_string() + "\n";
  if (!choice.text.empty()) text += "chosen: " + choice.text + "\n";
  text += to_string(job.load) + "\n" + choice.prediction.to_string();
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace strata
