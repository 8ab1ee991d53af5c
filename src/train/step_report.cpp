// The figures of a report come from the device, the process and the recorder. They are put into
// words here, so that `train` and `bench` say them alike.

#include "strata/train/step_report.h"

#include "strata/base/bytes.h"
#include "strata/base/host_memory.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/base/version.h"
#include "strata/ops/optimizer.h"
#include "strata/predict/trace_memory.h"
#include "strata/train/epochs.h"

namespace strata {

namespace {

/// Returns a line for each packed source.
std::vector<std::string> packing_lines(const TrainingSet& set) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < set.packing.size(); ++i) {
    const PackingCounts& p = set.packing[i];
    std::string line = fmt::format("packing  {}: {} documents in {} rows, {:.2f} % padding",
                                   set.sources[i]->name(), format_count(p.documents),
                                   format_count(p.rows), 100 * p.padding_share());
    if (p.overlong > 0) {
      line += fmt::format("; {} longer than a row {}", format_count(p.overlong),
                          p.dropped_tokens > 0
                              ? "dropped, with " + format_count(p.dropped_tokens) + " tokens"
                              : "cut");
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace

MemoryReport measure_memory(Session& session) {
  return {.device_planned = session.setup().device_bytes(),
          .device_measured = session.device().device_bytes_in_use(),
          .host_planned = session.setup().host_bytes(),
          .host_peak = peak_resident_bytes()};
}

std::string to_string(const MemoryReport& r) {
  return "device: planned " + format_bytes(r.device_planned) + ", measured " +
         format_bytes(r.device_measured) + "\nhost:   planned " + format_bytes(r.host_planned) +
         ", peak " + format_bytes(r.host_peak);
}

std::vector<std::string> summary(Session& session, int ranks) {
  const Setup& setup = session.setup();
  const RunConfig& config = session.config();
  const DeviceInfo device = session.device().info();
  const auto of = [](const std::optional<std::size_t>& limit) {
    return limit ? " of " + format_bytes(*limit) : std::string();
  };
  const std::string validation =
      !session.has_validation() ? "none"
      : config.run.eval_every > 0
          ? fmt::format("every {} and at the end", format_count(config.run.eval_every))
          : "at the end";
  const std::string epochs = epochs_text(config, session.training_set(), ranks);
  std::vector<std::string> lines{
      "program  strata " + version_text(build_info()),
      fmt::format("model    {} parameters in {} layers, computed in {}{}",
                  format_count(config.model.llama.parameter_count()),
                  config.model.llama.num_hidden_layers, name_of(config.run.dtype),
                  config.model.path.empty() ? "" : ", from " + config.model.path),
      fmt::format("data     {}, rows of {} tokens",
                  config.data.synthetic ? "random tokens" : config.data.train.text(),
                  format_count(config.data.sequence_length)),
      fmt::format("steps    {} of {} tokens{}, validation {}", format_count(config.run.steps),
                  format_count(session.global_tokens_per_step()),
                  epochs.empty() ? "" : ", " + epochs, validation),
      fmt::format("machine  {} ({} backend), {} rank{}", device.name, device.backend, ranks,
                  ranks == 1 ? "" : "s"),
      fmt::format("memory   {}{} on the device, {}{} on the host",
                  format_bytes(setup.device_bytes()), of(setup.budget.device_limit),
                  format_bytes(setup.host_bytes()), of(setup.budget.host_limit)),
      "state    " + setup.state_text()};
  const std::vector<std::string> packed = packing_lines(session.training_set());
  lines.insert(lines.end(), packed.begin(), packed.end());
  return lines;
}

Recorder::WorkTime update_time(const Recorder& recorder, int steps) {
  Recorder::WorkTime each;
  // A run has the operators of its optimizer, and none of the others.
  for (const std::string_view name : {AdamW::kName, Momentum::kName}) {
    const Recorder::WorkTime all = recorder.work_time(name);
    each.busy_s += all.busy_s / steps;
    each.exposed_s += all.exposed_s / steps;
  }
  return each;
}

std::string to_string(const Recorder::WorkTime& updates) {
  return fmt::format("busy {:.3f} s a step, exposed {:.3f} s: {:.1f} % hidden under compute",
                     updates.busy_s, updates.exposed_s, 100 * updates.hidden());
}

void trace_two_steps(Session& session, Recorder& recorder, std::int64_t first,
                     const std::function<void(std::int64_t)>& submit) {
  session.synchronize();
  recorder.reserve(most_trace_records(session.setup()));
  recorder.start();
  submit(first);
  submit(first + 1);
  session.synchronize();
  recorder.stop();
}

DevicePeak device_peak(Session& session) {
  return device_peak(session.config().hardware, session.device().info().peak_bf16_tflops);
}

}  // namespace strata
