// The self-test of streaming: what only moves bytes must not change a bit. A race that the machine
// happens to win is found in the trace.

#include "doctor/tiny_training.h"
#include "strata/base/log.h"
#include "strata/device/trace.h"

namespace strata {

namespace {

/// Everything lives on the host and comes and goes through as few slots as there can be; slots are
/// filled with NaN before they are used again. With one pass the device updates some of the layers,
/// with two the host adds their gradients.
RunConfig streamed(const SelfTestOptions& options, std::int64_t passes) {
  RunConfig config = tiny_training(options);
  config.schedule.resident_units = 0;
  config.schedule.weight_slots = 2;
  config.schedule.gradient_slots = 2;
  config.schedule.activation_slots = 2;
  config.schedule.activations = KeepLevel::kRecompute;
  config.schedule.spill = KeepLevel::kSelective;
  config.schedule.passes = passes;
  config.schedule.gradient_sums = GradientSums::kHost;
  config.optimizer.interleave = passes == 1 ? 0.5 : 0.0;
  config.debug.poison_slots = true;
  return config;
}

/// Everything lives on the device, and is kept there.
RunConfig resident(const SelfTestOptions& options, std::int64_t passes) {
  RunConfig config = tiny_training(options);
  config.schedule.resident_units = config.model.llama.num_hidden_layers + 2;
  config.schedule.activations = KeepLevel::kFull;
  config.schedule.spill = KeepLevel::kRecompute;  // nothing
  config.schedule.passes = passes;
  return config;
}

/// Trains with a config and returns what came of it; adds the first race that its trace shows, and
/// how many submissions there were.
struct Traced {
  std::string race;  ///< empty: there was none
  std::size_t submissions = 0;

  TrainingResult train(const SelfTestOptions& options, const RunConfig& config) {
    SingleRank single(options);
    Recorder trace;
    SessionHooks hooks = hooks_of(options);
    hooks.trace = &trace;
    Session session(config, single.ranks(), hooks);
    trace.start();
    train_steps(session, 0, config.run.steps);
    TrainingResult result = result_of(session);
    trace.stop();
    submissions += trace.records().size();
    const std::vector<Race> races = trace.races(1);
    if (race.empty() && !races.empty()) race = races.front().text;
    return result;
  }
};

Finding finding_of_races(const Traced& traced, BackendKind backend) {
  if (traced.race.empty()) {
    return {.name = "order of the lanes",
            .found = fmt::format("no race among {} submissions", traced.submissions)};
  }
  return {.name = "order of the lanes",
          .verdict = Verdict::kBad,
          .found = "two submissions may touch the same bytes at once: " + traced.race,
          .remedy = remedy_of_wrong_numbers(
              backend, "this is a fault of the program, whatever the machine: report it")};
}

}  // namespace

std::vector<Finding> check_residency(const SelfTestOptions& options) {
  Traced traced;
  std::string difference;
  for (const std::int64_t passes : {1, 2}) {
    const TrainingResult moved = traced.train(options, streamed(options, passes));
    const TrainingResult kept = traced.train(options, resident(options, passes));
    if (!difference.empty()) continue;
    difference = first_difference(moved, kept);
    if (!difference.empty()) {
      difference = fmt::format("streamed, with passes: {}: {} where everything is resident", passes,
                               difference);
    }
  }
  Finding bits{.name = "streamed and resident",
               .found =
                   "losses, norms and weights in bf16 have the same bits, with one pass and "
                   "with two"};
  if (!difference.empty()) {
    bits.verdict = Verdict::kBad;
    bits.found = difference;
    bits.remedy = remedy_of_wrong_numbers(
        options.backend, "run this again: other bits each time point to copies over the link");
  }
  return {bits, finding_of_races(traced, options.backend)};
}

}  // namespace strata
