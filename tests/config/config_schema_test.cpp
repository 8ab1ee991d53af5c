// Holds the JSON Schema of a run config to the list of its fields, and the limits of the list to
// what the rules refuse. tests/e2e/config_schema_test.py asks an independent validator.

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/config/config.h"
#include "support/catch.h"
#include "support/json.h"

namespace {

using nlohmann::json;

/// Compares a section of the schema with a section's fields; returns how many fields there are.
std::size_t compare(const strata::FieldList& fields, const json& schema,
                    const std::string& prefix) {
  CAPTURE(prefix);
  CHECK(schema["additionalProperties"] == false);
  const std::size_t more = prefix.empty() ? 1 : 0;  // $schema
  CHECK(schema["properties"].size() == fields.all().size() + more);
  std::size_t count = 0;
  for (const strata::Field& field : fields.all()) {
    CAPTURE(field.key);
    REQUIRE(schema["properties"].contains(field.key));
    const json& property = schema["properties"][field.key];
    CHECK_FALSE(property["description"].get<std::string>().empty());
    const std::string type = strata::json_text(property.value("type", json("")));
    CHECK((type.find("null") != std::string::npos) == field.optional);
    if (field.section) {
      count += compare(field.section(), property, prefix + field.key + '.');
      continue;
    }
    ++count;
    CHECK(property["description"] == field.description);
    CHECK(property.contains("default") != field.required);
    if (!field.required)
      CHECK(property["default"] == strata::parse_json<json>(strata::field_text(field)));
    CHECK(property.contains("enum") == !field.choices.empty());
    if (!field.choices.empty()) CHECK(property["enum"] == json(field.choices));
  }
  return count;
}

/// What the rules say of a config whose field `path` has this value.
std::string rules_complaint(const std::string& path, const std::string& value) {
  const std::vector<std::string> sets{path + '=' + value};
  strata::RunConfig config;
  strata::read_fields(config, "{}", "test", sets);
  try {
    config.validate("test");
  } catch (const strata::ConfigError& e) {
    return e.what();
  }
  return "";
}

/// Steps as far below a limit as the type of the field has numbers.
double below(const strata::Field& field, double limit) {
  return field.type == strata::FieldType::kNumber ? limit - 0.5 : limit - 1;
}

}  // namespace

TEST_CASE("the schema has every field of a run config, and nothing else") {
  strata::RunConfig config;
  const json schema = strata::parse_json<json>(strata::config_schema());
  CHECK(schema["$schema"] == "http://json-schema.org/draft-07/schema#");
  CHECK(schema["properties"]["$schema"]["type"] == "string");
  CHECK(compare(strata::fields_of(config), schema, "") > 100);
}

TEST_CASE("types, limits and null are written as JSON Schema has them") {
  const json sections = strata::parse_json<json>(strata::config_schema())["properties"];
  const auto property = [&](const char* section, const char* key) {
    return sections[section]["properties"][key];
  };
  const json steps = property("run", "steps");
  CHECK(steps["type"] == "integer");
  CHECK(steps["minimum"] == 1);
  CHECK(steps["maximum"] == 2147483647);
  const json clip = property("optimizer", "grad_clip");
  CHECK(clip["type"] == json({"number", "null"}));
  CHECK(clip["exclusiveMinimum"] == 0);
  CHECK(clip["default"].is_null());
  const json limit = property("memory", "device_limit");
  CHECK(limit["type"] == json({"integer", "string", "null"}));
  CHECK(limit.contains("pattern"));
  CHECK(property("optimizer", "betas")["minItems"] == 2);
  CHECK(property("data", "train")["anyOf"].size() == 3);
  CHECK_FALSE(property("model", "hidden_size").contains("default"));
  CHECK(property("model", "rope_scaling")["type"] == json({"object", "null"}));
  CHECK(sections["schedule"]["description"].get<std::string>().find("](") == std::string::npos);
}

TEST_CASE("the limits of the list are those that a config is held to") {
  strata::RunConfig config;
  std::size_t limited = 0;
  const strata::FieldList sections = strata::fields_of(config);
  for (const strata::Field& section : sections.all()) {
    const strata::FieldList fields = section.section();
    for (const strata::Field& field : fields.all()) {
      if (!field.limits) continue;
      ++limited;
      const std::string path = section.key + '.' + field.key;
      const strata::FieldLimits& limits = *field.limits;
      const auto text = [](double number) { return strata::json_text(json(number)); };
      CAPTURE(path, limits.least, limits.most);
      if (field.type != strata::FieldType::kBytes) {  // has no values below 0
        CHECK_THAT(
            rules_complaint(path, text(below(field, limits.least))),
            ContainsSubstring(path + ": must ") || ContainsSubstring(path + ": is required"));
      }
      CHECK((rules_complaint(path, text(limits.least)).find(path + ": must be above") !=
             std::string::npos) == limits.above);
      if (!std::isfinite(limits.most)) continue;
      CHECK_THAT(rules_complaint(path, text(limits.most + 1)),
                 ContainsSubstring(path + ": must be "));
      CHECK_THAT(rules_complaint(path, text(limits.most)),
                 !ContainsSubstring(path + ": must be from"));
    }
  }
  CHECK(limited > 50);
}
