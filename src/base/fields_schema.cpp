// Writes a list of fields as a JSON Schema, by which editors complete a config and mark what
// reading it would refuse. It says what read_fields and check_limits do, key by key; rules between
// keys are beyond it.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "strata/base/describe_fields.h"
#include "strata/base/fields.h"
#include "strata/base/json.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

/// What parse_bytes reads.
constexpr std::string_view kSizePattern =
    R"(^([0-9]+( ?B)?|([0-9]+([.][0-9]*)?|[.][0-9]+) ?(KiB|MiB|GiB|TiB|KB|MB|GB|TB))$)";

Json schema_of_section(const FieldList& fields);

/// Returns the text without the links of Markdown that stand in brackets, as in "it is so
/// ([why](page.md))": they lead nowhere from where the text is shown.
std::string without_links(std::string text) {
  constexpr std::string_view kBegin = " ([";
  constexpr std::string_view kEnd = "))";
  std::size_t begin = text.find(kBegin);
  while (begin != std::string::npos) {
    const std::size_t end = text.find(kEnd, begin);
    if (end == std::string::npos) break;
    text.erase(begin, end + kEnd.size() - begin);
    begin = text.find(kBegin, begin);
  }
  return text;
}

/// A path or list of paths, or a list of such with weights.
Json schema_of_files() {
  const Json path{{"type", "string"}, {"minLength", 1}};
  const Json paths{{"type", "array"}, {"items", path}, {"minItems", 1}};
  const Json weighted{{"type", "object"},
                      {"properties",
                       {{"path", {{"anyOf", Json::array({path, paths})}}},
                        {"weight", {{"type", "number"}, {"exclusiveMinimum", 0}}}}},
                      {"required", {"path", "weight"}},
                      {"additionalProperties", false}};
  const Json sources{{"type", "array"}, {"items", weighted}, {"minItems", 1}};
  return {{"anyOf", Json::array({{{"type", "string"}}, paths, sources})}};
}

/// A list of texts and of conversations.
Json schema_of_strings() {
  const Json conversation{{"type", "object"}, {"required", Json::array({"messages"})}};
  return {{"type", "array"},
          {"items", {{"anyOf", Json::array({{{"type", "string"}}, conversation})}}}};
}

/// Returns what JSON the field is read from, but for null.
Json schema_of_type(const Field& field) {
  switch (field.type) {
    case FieldType::kBool: return {{"type", "boolean"}};
    case FieldType::kInteger: return {{"type", "integer"}};
    case FieldType::kNumber: return {{"type", "number"}};
    case FieldType::kString: return {{"type", "string"}};
    case FieldType::kStrings: return schema_of_strings();
    case FieldType::kPair:
      return {{"type", "array"}, {"items", {{"type", "number"}}}, {"minItems", 2}, {"maxItems", 2}};
    case FieldType::kNumbers: return {{"type", "array"}, {"items", {{"type", "number"}}}};
    case FieldType::kBytes:
      return {
          {"type", Json::array({"integer", "string"})}, {"minimum", 0}, {"pattern", kSizePattern}};
    case FieldType::kFiles: return schema_of_files();
    case FieldType::kChoice: return {{"type", "string"}, {"enum", field.choices}};
    case FieldType::kSection: return schema_of_section(field.section());
  }
  return {};
}

void allow_null(Json& schema) {
  if (schema.contains("anyOf")) {
    schema["anyOf"].push_back({{"type", "null"}});
    return;
  }
  Json& type = schema["type"];
  if (!type.is_array()) type = Json::array({type});
  type.push_back("null");
}

/// Returns a limit as an integer where it is one, which is how people write it.
Json number(double value) {
  constexpr double kExact = 0x1p53;
  if (std::trunc(value) != value || std::abs(value) > kExact) return value;
  return static_cast<std::int64_t>(value);
}

void add_limits(const FieldLimits& limits, Json& schema) {
  schema.erase("minimum");
  if (std::isfinite(limits.least)) {
    schema[limits.above ? "exclusiveMinimum" : "minimum"] = number(limits.least);
  }
  if (std::isfinite(limits.most)) schema["maximum"] = number(limits.most);
}

Json schema_of(const Field& field) {
  const bool absent = std::holds_alternative<std::monostate>(field.get());
  Json schema = schema_of_type(field);
  if (field.limits) add_limits(*field.limits, schema);
  if (field.type == FieldType::kSection) {
    if (absent) field.set({});  // listing its fields has brought it to life
  } else if (!field.required) {
    schema["default"] = parse_json<Json>(field_text(field));
  }
  if (field.optional) allow_null(schema);
  schema["description"] = without_links(field.description);
  return schema;
}

Json schema_of_section(const FieldList& fields) {
  Json properties = Json::object();
  for (const Field& field : fields.all()) properties[field.key] = schema_of(field);
  return {
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

}  // namespace

std::string schema_of_fields(const FieldList& fields, const SchemaHead& head) {
  Json schema{{"$schema", "http://json-schema.org/draft-07/schema#"},
              {"title", head.title},
              {"description", head.description}};
  schema.update(schema_of_section(fields));
  schema["properties"]["$schema"] = {
      {"type", "string"}, {"description", "Names this schema to editors; strata ignores it."}};
  return json_text(schema, 2) + '\n';
}

}  // namespace strata
