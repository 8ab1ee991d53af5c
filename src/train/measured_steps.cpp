// The clock starts when the machine is warm, and stops when all pending updates are done.

#include "strata/train/measured_steps.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/process.h"
#include "strata/base/text.h"
#include "strata/base/work_meter.h"
#include "strata/predict/known_rates.h"

namespace strata {

namespace {

/// So many steps run before the clock starts: the first one touches memory and fills caches, the
/// second is the first one with pending updates.
constexpr std::int64_t kWarmUpSteps = 2;

/// Takes the measured steps as they end, and says of each how long it took; of many, of every so
/// many.
class StepLog {
 public:
  StepLog(MeasuredSteps& result, std::int64_t steps, double begin_s, double step_tokens)
      : result_(result), steps_(steps), last_s_(begin_s), step_tokens_(step_tokens) {
    result_.attended = 0;
  }
  void add(const std::vector<FinishedStep>& finished) {
    constexpr std::int64_t kMostLines = 32;
    for (const FinishedStep& f : finished) {
      const double step_s = f.finished_s - std::exchange(last_s_, f.finished_s);
      result_.step_s.push_back(step_s);
      result_.missed += f.outcome.missed ? 1 : 0;
      result_.targets += f.valid_tokens;
      result_.attended += f.attended / static_cast<double>(steps_);
      const std::int64_t done = std::ssize(result_.step_s);
      if (done % ((steps_ + kMostLines - 1) / kMostLines) != 0) continue;
      log::info("step {} of {}: {:.4f} s, {} tokens/s", done, steps_, step_s,
                format_count(std::llround(step_tokens_ / step_s)));
    }
  }

 private:
  MeasuredSteps& result_;
  std::int64_t steps_;
  double last_s_;
  double step_tokens_;
};

}  // namespace

RunConfig synthetic_run(const RunConfig& config, std::int64_t steps) {
  RunConfig synthetic = config;
  synthetic.data.synthetic = true;
  synthetic.data.validation.clear();
  synthetic.run.epochs.reset();  // which random tokens have none of
  synthetic.run.trace_step = 1;
  synthetic.run.steps = steps;
  if (synthetic.run.steps < 1) {
    throw ConfigError("run.steps: a benchmark measures at least one step");
  }
  return synthetic;
}

MeasuredSteps measure_steps(Session& session, Recorder& recorder, std::int64_t steps) {
  const double lr = session.config().optimizer.lr;
  MeasuredSteps result;
  std::int64_t step = 0;
  WorkProgress work;
  work.begin("measuring", {static_cast<std::uint64_t>(kWarmUpSteps + steps), "steps"});
  const WorkMeter meter(work, WorkMeter::Elsewhere::kLogged);
  const auto tokens = static_cast<double>(session.global_tokens_per_step());
  log::info("warming up for {} steps", kWarmUpSteps);
  const double start_s = steady_seconds();
  const auto submit = [&] {
    session.submit(step++, lr);
    work.set(static_cast<std::uint64_t>(std::max<std::int64_t>(0, step - 2)));  // two are under way
  };
  while (step < kWarmUpSteps) submit();
  session.synchronize();
  (void)session.take_finished();
  log::info("warm after {:.1f} s; measuring {} step(s) of {} tokens", steady_seconds() - start_s,
            format_count(steps), format_count(session.global_tokens_per_step()));
  const LinkBytes before = session.link_bytes();
  const double begin_s = steady_seconds();
  StepLog ended(result, steps, begin_s, tokens);
  for (std::int64_t i = 0; i < steps; ++i) {
    submit();
    ended.add(session.take_finished());
  }
  session.synchronize();
  const double measured_s = steady_seconds() - begin_s;
  ended.add(session.take_finished());
  result.mean_s = measured_s / static_cast<double>(steps);
  log::info("measured {:.1f} s, {} tokens/s; tracing two more steps", measured_s,
            format_count(std::llround(tokens / result.mean_s)));
  const LinkBytes all = session.link_bytes() - before;
  const auto count = static_cast<std::size_t>(steps);
  result.link = {all.weights_in / count, all.activations_in / count, all.out / count,
                 all.state / count};
  work.begin("tracing two steps");
  double last_s = 0;
  trace_two_steps(session, recorder, step, [&](std::int64_t s) {
    if (s == step) last_s = steady_seconds();
    session.submit(s, lr);
  });
  for (const FinishedStep& f : session.take_finished()) {
    result.traced_s.push_back(f.finished_s - last_s);
    last_s = f.finished_s;
  }
  result.lanes = lane_times(recorder, 2);
  result.updates = update_time(recorder, 2);
  result.work = work_times(recorder, 2);
  result.races = recorder.races(1).size();
  result.memory = measure_memory(session);
  return result;
}

HardwareSection rates_seen(const MeasuredSteps& measured, const Session& session) {
  const RunConfig& config = session.config();
  HardwareSection hardware =
      measured_rates(measured.work, config.data.sequence_length, config.model.llama.head_size());
  // Beside others of its host a rank has less than the key is about, which is one rank's alone.
  if (session.setup().budget.ranks_on_host > 1) hardware.host_gbs.reset();
  return hardware;
}

}  // namespace strata
