// Keys are added in groups: program and machine, steps, use of the peak, bytes, layout, lanes. The
// table of bench_command.cpp reads them from here, so that both say the same.

#include "commands/bench_json.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "strata/base/version.h"
#include "strata/benchmark/figures.h"
#include "strata/predict/rate_keys.h"
#include "strata/predict/utilisation.h"
#include "strata/train/step_report.h"

namespace strata {

namespace {

nlohmann::json json_of_machine(Session& session, int ranks) {
  const DeviceInfo info = session.device().info();
  const BuildInfo build = build_info();
  return {{"version", build.version},
          {"commit", build.commit},
          {"device", info.name},
          {"backend", info.backend},
          {"ranks", ranks}};
}

void add_steps(nlohmann::json& json, const MeasuredSteps& r, double tokens_per_s,
               const Session& session) {
  const RunConfig& config = session.config();
  json["parameters"] = config.model.llama.parameter_count();
  json["sequence_length"] = config.data.sequence_length;
  json["tokens_per_step"] = session.global_tokens_per_step();
  json["steps"] = r.step_s.size();
  json["step_s_mean"] = r.mean_s;
  json["step_s_median"] = median(r.step_s);
  json["step_s_each"] = r.step_s;
  json["tokens_per_s"] = tokens_per_s;
  json["targets_per_s"] =
      static_cast<double>(r.targets) / (r.mean_s * static_cast<double>(r.step_s.size()));
}

/// Adds how much of the device's peak the steps used; null where that is unknown.
void add_utilisation(nlohmann::json& json, const MeasuredSteps& r, double tokens_per_s,
                     Session& session, int ranks) {
  const std::int64_t sequence = session.config().data.sequence_length;
  const double model = flops_per_token(session.setup().spec, sequence);
  const double recompute = session.setup().recompute_flops_per_token();
  const DevicePeak peak = device_peak(session);
  const auto utilisation = [&](double flops) {
    const std::optional<double> share =
        model_flops_utilisation(flops, tokens_per_s, peak.tflops, ranks);
    return share ? nlohmann::json(*share) : nlohmann::json();
  };
  json["flops_per_token"] = model;
  json["recompute_flops_per_token"] = recompute;
  json["tflops"] = model * tokens_per_s * 1e-12;
  json["mfu"] = utilisation(model);
  json["mfu_attended"] = utilisation(flops_per_token(session.setup().spec, sequence, r.attended));
  json["hfu"] = utilisation(model + recompute);
  json["mfu_formula"] = kMfuFormula;
  json["peak_tflops"] = nullptr;
  if (peak.tflops > 0) {
    json["peak_tflops"] = peak.tflops;
    json["peak_origin"] = peak.origin;
  }
  const std::optional<double> mfu =
      model_flops_utilisation(model, tokens_per_s, peak.tflops, ranks);
  if (const std::string warning = peak_warning(mfu, peak); !warning.empty()) {
    json["mfu_warning"] = warning;
  }
}

void add_bytes(nlohmann::json& json, const MeasuredSteps& r) {
  json["weights_in_bytes"] = r.link.weights_in;
  json["activations_in_bytes"] = r.link.activations_in;
  json["out_bytes"] = r.link.out;
  json["state_bytes"] = r.link.state;
  json["device_planned_bytes"] = r.memory.device_planned;
  json["device_measured_bytes"] = r.memory.device_measured;
  json["host_planned_bytes"] = r.memory.host_planned;
  json["host_peak_bytes"] = r.memory.host_peak;
}

/// Adds where the run had its data, and what was chosen by prediction.
void add_layout(nlohmann::json& json, const MeasuredSteps& r, const Session& session) {
  const RunConfig& config = session.config();
  const Setup& setup = session.setup();
  json["activations_kept"] = setup.kept_text();
  json["activations_spilled"] = setup.spilled_text();
  json["training_state"] = setup.state_text();
  json["resident_units"] = setup.choices.resident_units;
  json["passes"] = config.schedule.passes;
  if (config.optimizer.timing == UpdateTiming::kSpeculative) {
    json["speculated_units"] = setup.speculated_units();
    json["missed_steps"] = r.missed;
  }
  for (const KeepLevel level : kKeepLevels) {
    json["kept_cells"][std::string(name_of(level))] = setup.kept.count(level);
    json["spilled_cells"][std::string(name_of(level))] = setup.kept.count_spilled(level);
  }
  json["choices"] = nlohmann::json::array();
  for (const PlacementChoice& choice : session.choices()) {
    json["choices"].push_back({{"key", choice.key},
                               {"value", choice.value},
                               {"step_s", choice.step_s},
                               {"other", choice.other},
                               {"other_s", choice.other_s}});
  }
}

void add_lanes(nlohmann::json& json, const MeasuredSteps& r) {
  for (const LaneReport& lane : r.lanes) {
    json["lanes"][lane.lane] = {{"busy_s", lane.busy_s}, {"exposed_s", lane.exposed_s}};
  }
  json["updates"] = {{"busy_s", r.updates.busy_s},
                     {"exposed_s", r.updates.exposed_s},
                     {"hidden", r.updates.hidden()}};
  json["races"] = r.races;
}

}  // namespace

nlohmann::json json_of(const MeasuredSteps& r, Session& session, int ranks) {
  const double tokens_per_s = static_cast<double>(session.global_tokens_per_step()) / r.mean_s;
  nlohmann::json json = json_of_machine(session, ranks);
  add_steps(json, r, tokens_per_s, session);
  add_utilisation(json, r, tokens_per_s, session, ranks);
  add_bytes(json, r);
  add_layout(json, r, session);
  add_lanes(json, r);
  for (const auto& [name, seconds] : parts_of(session.startup())) {
    json[std::string(name)] = seconds;
  }
  return json;
}

void add_prediction(nlohmann::json& json, const MeasuredSteps& r, const Session& session,
                    const Prediction& p, const PredictedTrace& traced) {
  for (const WorkReport& work : r.work) {
    nlohmann::json entry{{"lane", work.lane},     {"name", work.name},
                         {"flops", work.flops},   {"bytes", work.bytes},
                         {"count", work.count},   {"measured_s", work.busy_s},
                         {"predicted_s", nullptr}};
    for (const WorkReport& other : traced.work) {
      const bool same = other.lane == work.lane && other.name == work.name &&
                        other.kind == work.kind && other.flops == work.flops;
      if (same) entry["predicted_s"] = other.busy_s;
    }
    json["work"].push_back(std::move(entry));
  }
  const HardwareSection hardware = rates_seen(r, session);
  for (const RateKey& key : kRateKeys) {
    if (const std::optional<double>& rate = hardware.*key.given) {
      json["hardware"][std::string(key.key)] = *rate;
    }
  }
  if (!p.unknown.empty()) {
    json["prediction"] = {{"unknown", p.unknown}};
    return;
  }
  json["prediction"] = {{"rates", p.rates},
                        {"step_s", p.step_s},
                        {"step_s_mean", p.mean_s(static_cast<double>(r.step_s.size()))},
                        {"tokens_per_s", p.tokens_per_s},
                        {"mfu", nullptr}};
  nlohmann::json& prediction = json["prediction"];
  if (p.mfu) prediction["mfu"] = *p.mfu;
  for (const Prediction::Part& part : p.critical) prediction["critical"][part.name] = part.share;
  for (const LaneReport& lane : traced.lanes) {
    prediction["lanes"][lane.lane] = {{"busy_s", lane.busy_s}, {"exposed_s", lane.exposed_s}};
  }
}

}  // namespace strata
