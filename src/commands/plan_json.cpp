// The config of a plan is the resolved one, so that a program can start the run that was planned.

#include "commands/plan_json.h"

#include <cstddef>
#include <cstdio>
#include <optional>

#include "strata/base/fields.h"
#include "strata/base/json.h"
#include "strata/base/output_file.h"
#include "strata/base/version.h"
#include "strata/commands/commands.h"

namespace strata {

namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

Json json_of(const Prediction& prediction) {
  if (!prediction.unknown.empty()) return {{"unknown", prediction.unknown}};
  Json json{{"rates", prediction.rates},
            {"step_s", prediction.step_s},
            {"tokens_per_s", prediction.tokens_per_s},
            {"mfu", or_null(prediction.mfu)}};
  if (!prediction.warning.empty()) json["warning"] = prediction.warning;
  json["critical"] = Json::object();
  for (const Prediction::Part& part : prediction.critical) json["critical"][part.name] = part.share;
  json["lanes"] = Json::object();
  for (const LaneReport& lane : prediction.lanes) {
    json["lanes"][lane.lane] = {{"busy_s", lane.busy_s}, {"exposed_s", lane.exposed_s}};
  }
  return json;
}

Json json_of(const RunConfig& given, const Placement& placement) {
  const Setup& setup = placement.setup;
  Json json{{"device_bytes", setup.device_bytes()},
            {"device_limit_bytes", or_null(setup.budget.device_limit)},
            {"host_bytes", setup.host_bytes()},
            {"host_limit_bytes", or_null(setup.budget.host_limit)},
            {"training_state", setup.state_text()},
            {"activations_kept", setup.kept_text()},
            {"activations_spilled", setup.spilled_text()},
            {"choices", Json::array()},
            {"config", parse_json<Json>(write_fields(resolve(given, setup)))}};
  for (const PlacementChoice& choice : placement.choices) {
    json["choices"].push_back({{"key", choice.key},
                               {"value", choice.value},
                               {"step_s", choice.step_s},
                               {"other", choice.other},
                               {"other_s", choice.other_s}});
  }
  return json;
}

Json json_head(const std::string& device, int ranks) {
  const BuildInfo build = build_info();
  return {
      {"version", build.version}, {"commit", build.commit}, {"device", device}, {"ranks", ranks}};
}

void write_json(const Json& json, const std::string& file) {
  const std::string text = json_text(json, 2) + '\n';
  if (file == kStandardOutput) {
    std::fputs(text.c_str(), stdout);
  } else {
    write_file(file, text);
  }
}

}  // namespace strata
