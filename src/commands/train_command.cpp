// `train` submits the steps of a run with validations and a trace in between, and writes the run
// folder: config, metrics, log and trace. All ranks run it; rank 0 writes.

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "commands/run_ranks.h"
#include "strata/base/log.h"
#include "strata/base/process.h"
#include "strata/commands/commands.h"
#include "strata/plan/prediction.h"
#include "strata/plan/utilisation.h"
#include "strata/run/lr_schedule.h"
#include "strata/run/metrics.h"
#include "strata/run/report.h"
#include "strata/run/session.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

std::int64_t metric_of(std::size_t bytes) { return static_cast<std::int64_t>(bytes); }

/// Runs the training of one rank. Steps are reported when they have finished, which is after later
/// ones were submitted.
class Trainer {
 public:
  Trainer(const RunConfig& config, Ranks& ranks)
      : folder_(config.run.output),
        ranks_(ranks),
        session_(config, ranks, {.trace = &recorder_, .run_folder = config.run.output}),
        config_(session_.setup().config),
        progress_(config.run.steps),
        flops_per_token_(
            strata::flops_per_token(config_.model.llama, config_.data.sequence_length)),
        peak_tflops_(peak_tflops(session_)) {}

  void run() {
    start();
    try {
      steps();
    } catch (...) {
      report_finished();  // the last lines tell why
      throw;
    }
    if (session_.has_validation()) evaluate(config_.run.steps);
    end();
  }

 private:
  void steps() {
    reference_s_ = steady_seconds();
    for (std::int64_t step = 0; step < config_.run.steps;) {
      const std::int64_t first = step;
      if (step == config_.run.trace_step) {
        trace(step);
        step += 2;
      } else {
        submit(step++);
      }
      report_finished();
      const std::int64_t every = config_.run.eval_every;
      if (every > 0 && step / every > first / every && step < config_.run.steps) {
        evaluate(step);
      }
    }
    session_.synchronize();
    report_finished();
  }

  void submit(std::int64_t step) {
    session_.submit(step, lr_at(config_.optimizer, config_.run.steps, step));
  }

  void start() {
    log::info("memory plan:\n{}", session_.setup().to_string());
    for (const PlacementChoice& choice : session_.choices()) log::info("{}", choice.to_string());
    if (ranks_.rank() != 0) return;
    save_run_config(config_, folder_ / "config.json");
    metrics_.emplace(folder_ / "metrics.jsonl");
    const DeviceInfo info = session_.device().info();
    metrics_->start(std::vector<Metric>{
        {"parameters", config_.model.llama.parameter_count()},
        {"backend", info.backend},
        {"device", info.name},
        {"ranks", std::int64_t{ranks_.size()}},
        {"tokens_per_step", session_.global_tokens_per_step()},
        {"flops_per_token", flops_per_token_},
        {"recompute_flops_per_token", session_.setup().recompute_flops_per_token()},
        {"activations_kept", session_.setup().kept_text()},
        {"device_planned_bytes", static_cast<std::int64_t>(session_.setup().device_bytes())},
        {"host_planned_bytes", static_cast<std::int64_t>(session_.setup().host_bytes())}});
  }

  void report_finished() {
    for (const FinishedStep& finished : session_.take_finished()) {
      const double step_s = finished.finished_s - std::max(reference_s_, last_finished_s_);
      last_finished_s_ = finished.finished_s;
      if (ranks_.rank() != 0) continue;
      StepMetrics m;
      m.step = finished.outcome.step + 1;
      m.loss = finished.outcome.loss;
      m.grad_norm = finished.outcome.grad_norm;
      m.lr = finished.outcome.lr;
      m.tokens = session_.global_tokens_per_step();
      m.step_s = step_s;
      m.mfu =
          model_flops_utilisation(flops_per_token_, m.tokens_per_s(), peak_tflops_, ranks_.size());
      std::vector<Metric> extras{{"valid_tokens", finished.valid_tokens},
                                 {"applied", finished.outcome.applied},
                                 {"host_busy_s", finished.host_busy_s},
                                 {"weights_in_bytes", metric_of(finished.link.weights_in)},
                                 {"activations_in_bytes", metric_of(finished.link.activations_in)},
                                 {"out_bytes", metric_of(finished.link.out)},
                                 {"state_bytes", metric_of(finished.link.state)}};
      if (config_.optimizer.timing == UpdateTiming::kSpeculative) {
        extras.push_back({"missed", finished.outcome.missed});
        missed_ += finished.outcome.missed ? 1 : 0;
      }
      metrics_->step(m, extras);
      if (m.step == 1) log::info("{}", to_string(session_.startup()));
      progress_.add(m);
      const bool shown = m.step % std::max<std::int64_t>(1, config_.run.log_every) == 0;
      if (shown || m.step == config_.run.steps) log::info("{}", progress_.line());
    }
  }

  void evaluate(std::int64_t step) {
    const double begin_s = steady_seconds();
    const double loss = session_.evaluate();
    report_finished();
    reference_s_ = steady_seconds();
    if (ranks_.rank() != 0) return;
    metrics_->eval(step, loss);
    log::info("step {}/{} validation loss {:.4f} ({:.1f} s)", step, config_.run.steps, loss,
              reference_s_ - begin_s);
  }

  void trace(std::int64_t step) {
    trace_two_steps(session_, recorder_, step, [this](std::int64_t s) { submit(s); });
    for (const Race& race : recorder_.races()) log::error("race: {}", race.text);
    const std::vector<LaneReport> lanes = lane_times(recorder_, 2);
    for (const LaneReport& lane : lanes) {
      log::info("lane {:<15} busy {:.3f} s, exposed {:.3f} s a step", lane.lane, lane.busy_s,
                lane.exposed_s);
    }
    const Recorder::WorkTime updates = update_time(recorder_, 2);
    log::info("updates {}", to_string(updates));
    const Prediction predicted = predict(session_.setup(), session_.device().info().name);
    if (predicted.unknown.empty()) log::info("{}", predicted.to_string());
    if (ranks_.rank() == 0) {
      recorder_.write_chrome_trace((folder_ / "trace.json").string());
      log::info("trace of steps {} and {} in {}", step, step + 1,
                (folder_ / "trace.json").string());
    }
    recorder_.clear();
    report_finished();
    if (ranks_.rank() == 0) log_trace(step, lanes, updates);
    reference_s_ = steady_seconds();
  }

  /// Writes where the time of the two traced steps went, as seconds of one step.
  void log_trace(std::int64_t step, const std::vector<LaneReport>& lanes,
                 const Recorder::WorkTime& updates) {
    std::vector<std::string> keys;
    for (const LaneReport& lane : lanes) {
      keys.push_back(lane.lane + "_busy_s");
      keys.push_back(lane.lane + "_exposed_s");
    }
    std::vector<Metric> metrics{{"step", step + 1}};
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      metrics.push_back({keys[2 * i], lanes[i].busy_s});
      metrics.push_back({keys[2 * i + 1], lanes[i].exposed_s});
    }
    metrics.push_back({"updates_busy_s", updates.busy_s});
    metrics.push_back({"updates_exposed_s", updates.exposed_s});
    metrics.push_back({"updates_hidden", updates.hidden()});
    metrics_->trace(metrics);
  }

  void end() {
    const MemoryReport memory = measure_memory(session_);
    log::info("{}", to_string(memory));
    if (ranks_.rank() != 0) return;
    std::vector<Metric> metrics{{"steps", config_.run.steps},
                                {"device_measured_bytes", metric_of(memory.device_measured)},
                                {"host_peak_bytes", metric_of(memory.host_peak)}};
    if (config_.optimizer.timing == UpdateTiming::kSpeculative) {
      log::info("speculation: {} of {} steps missed", missed_, config_.run.steps);
      metrics.push_back({"missed_steps", missed_});
    }
    for (const auto& [key, seconds] : parts_of(session_.startup())) {
      metrics.push_back({key, seconds});
    }
    metrics_->end(metrics);
  }

  fs::path folder_;
  Ranks& ranks_;
  Recorder recorder_;
  Session session_;
  RunConfig config_;  ///< resolved
  Progress progress_;
  double flops_per_token_ = 0;
  double peak_tflops_ = 0;
  std::optional<MetricsLog> metrics_;
  double reference_s_ = 0;  ///< when stepping last began: at start, after a validation or a trace
  double last_finished_s_ = 0;
  std::int64_t missed_ = 0;  ///< steps whose early updates were undone
};

}  // namespace

int train_command(const LoadConfig& load) {
  return on_all_ranks(load, [](Ranks& ranks, const RunConfig& config) {
    const fs::path folder = config.run.output;
    if (ranks.rank() == 0) {
      std::error_code error;
      fs::create_directories(folder, error);
      if (error) {
        throw IoError("run.output: cannot create the folder " + folder.string() + ": " +
                      error.message());
      }
    }
    ranks.barrier(Channel::kSubmit);
    log::configure(ranks.rank(), ranks.size(),
                   ranks.rank() == 0 ? (folder / "train.log").string() : std::string());
    Trainer(config, ranks).run();
    return 0;
  });
}

}  // namespace strata
