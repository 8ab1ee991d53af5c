// Reads and writes results. Objects whose members are figures or texts are written and read by
// lists of fields, like a config; runs are kept as the JSON that they wrote, so that nothing of it
// is lost here.

#include "strata/benchmark/results.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "benchmark/parse_json_text.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/base/text.h"

namespace strata {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// What the member "format" of a file says; one with another number is refused.
constexpr int kFormat = 1;
constexpr const char* kFormatKey = "strata_suite";
constexpr std::size_t kMostFileBytes = std::size_t{1} << 28;

/// The members of a run that are no object.
struct RunText {
  std::string date;
  double wall_s = 0;
  std::int64_t exit_code = 0;
  std::string error;
  void fields(FieldList& f) {
    f.add("date", date, "when it was begun");
    f.add("wall_s", wall_s, "seconds that the process took");
    f.add("exit_code", exit_code, "of the process");
    f.add("error", error, "why there is no result");
  }
};

/// The members of a row that are no object.
struct ResultRowText {
  std::string name;
  std::string title;
  std::string command;
  std::int64_t repeats = 0;
  void fields(FieldList& f) {
    f.add("name", name, "of the row");
    f.add("title", title, "what is measured");
    f.add("command", command, "measures it alone");
    f.add("repeats", repeats, "how often it was to be measured");
  }
};

template <HasFields T>
Json written(const T& object) {
  return parse_json<Json>(write_fields(object));
}

/// Reads the members of an object that the fields know.
template <HasFields T>
void read_known(T& object, const Json& json, const std::string& place) {
  Json known = Json::object();
  const FieldList fields = fields_of(object);
  for (const auto& [key, value] : json.items()) {
    if (fields.find(key) != nullptr) known[key] = value;
  }
  read_fields(fields, json_text(known, kOneLine, NotUtf8::kReplace), place);
}

/// Returns a member of an object. Throws ConfigError if it is missing or of another type.
const Json& member(const Json& json, const char* key, Json::value_t type,
                   const std::string& place) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (!json.is_object() || found == json.end() || found->type() != type) {
    throw ConfigError(place + ": " + key +
                      " is missing or damaged; measure again, or name another file");
  }
  return *found;
}

Json to_json(const RunRecord& run) {
  Json json = written(RunText{run.date, run.wall_s, run.exit_code, run.error});
  json["result"] = run.json.empty() ? Json(nullptr) : parse_json<Json>(run.json);
  return json;
}

Json to_json(const RowRecord& row) {
  Json json = written(ResultRowText{row.name, row.title, row.command, row.repeats});
  json["tokens_per_s"] = nullptr;
  json["spread"] = nullptr;
  if (const std::optional<RowFigures> figures = row.figures()) {
    json["tokens_per_s"] = figures->middle.tokens_per_s;
    if (figures->spread) json["spread"] = *figures->spread;
  }
  json["config"] = Json::object();
  for (const FieldText& field : row.config)
    json["config"][field.path] = parse_json<Json>(field.value);
  json["runs"] = Json::array();
  for (const RunRecord& run : row.runs) json["runs"].push_back(to_json(run));
  return json;
}

RunRecord read_run_record(const Json& json, const std::string& place) {
  RunText text;
  if (!json.is_object()) throw ConfigError(place + ": is " + shown(json) + ", and no run");
  read_known(text, json, place);
  RunRecord run{.date = text.date,
                .wall_s = text.wall_s,
                .exit_code = static_cast<int>(text.exit_code),
                .error = text.error,
                .json = {},
                .figures = {}};
  const auto result = json.find("result");
  if (result != json.end() && !result->is_null()) {
    run.json = result->dump();
    run.figures = read_bench(run.json, place + ": result");
  } else if (run.error.empty()) {
    throw ConfigError(place + ": has neither result nor error; measure again");
  }
  return run;
}

RowRecord read_row_record(const Json& json, const std::string& place) {
  ResultRowText text;
  if (!json.is_object()) throw ConfigError(place + ": is " + shown(json) + ", and no row");
  read_known(text, json, place);
  const std::string where = place + " (" + printable_name(shortened(text.name)) + ")";
  RowRecord row{.name = text.name,
                .title = text.title,
                .command = text.command,
                .repeats = text.repeats,
                .config = {},
                .runs = {}};
  for (const auto& [path, value] : member(json, "config", Json::value_t::object, where).items()) {
    row.config.push_back({.path = path, .value = json_text(value)});
  }
  const Json& runs = member(json, "runs", Json::value_t::array, where);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    row.runs.push_back(read_run_record(runs[i], where + ": run " + std::to_string(i + 1)));
  }
  return row;
}

/// Returns the results of a single bench as a suite of one row.
SuiteResults results_of_bench(std::string text, const std::string& place) {
  BenchFigures figures = read_bench(text, place);
  SuiteResults results;
  results.provenance.version = figures.version;
  results.provenance.commit = figures.commit;
  RowRecord row{
      .name = "bench", .title = "one bench", .command = {}, .repeats = 1, .config = {}, .runs = {}};
  row.runs.push_back({.date = {},
                      .wall_s = 0,
                      .exit_code = 0,
                      .error = {},
                      .json = std::move(text),
                      .figures = std::move(figures)});
  const Json json = parse_json<Json>(row.runs[0].json);
  if (const auto machine = json.find("provenance"); machine != json.end()) {
    read_known(results.provenance, *machine, place + ": provenance");
  }
  if (const auto config = json.find("config"); config != json.end() && config->is_object()) {
    for (const auto& [path, value] : config->items()) {
      row.config.push_back({.path = path, .value = json_text(value)});
    }
  }
  results.rows.push_back(std::move(row));
  return results;
}

}  // namespace

void Provenance::fields(FieldList& f) {
  f.add("version", version, "of strata");
  f.add("commit", commit, "that it was built from");
  f.add("date", date, "when the suite was begun, UTC");
  f.add("command", command, "that measured");
  f.add("launcher", launcher, "what starts the ranks of each row");
  f.add("host", host, "name of the machine");
  f.add("system", system, "kernel and its release");
  f.add("cpu", cpu, "model of the processor");
  f.add("cores", cores, "that the process may use");
  f.add("host_memory_bytes", host_memory_bytes, "of the machine, or of the control group");
  f.add("gpus", gpus, "name, memory and power limit of each");
  f.add("driver", driver, "version of the GPUs' driver");
}

std::optional<RowFigures> RowRecord::figures() const {
  std::vector<BenchFigures> all;
  for (const RunRecord& run : runs) {
    if (run.figures) all.push_back(*run.figures);
  }
  return summarise(all);
}

const RunRecord* RowRecord::failure() const {
  const auto failed =
      std::find_if(runs.rbegin(), runs.rend(), [](const RunRecord& run) { return !run.figures; });
  return failed == runs.rend() ? nullptr : &*failed;
}

bool RowRecord::refused() const {
  if (runs.empty() || runs.back().figures) return false;
  const int code = runs.back().exit_code;
  return code == ConfigError("").exit_code() || code == OutOfMemory("").exit_code();
}

std::string to_json(const SuiteResults& results) {
  Json json{{kFormatKey, kFormat}, {"suite", results.suite}, {"title", results.title}};
  json["provenance"] = written(results.provenance);
  json["rows"] = Json::array();
  for (const RowRecord& row : results.rows) json["rows"].push_back(to_json(row));
  return json_text(json, 2, NotUtf8::kReplace) + '\n';
}

SuiteResults read_results(const fs::path& file) {
  const std::string place = file.string();
  std::string text = read_text_file(file, kMostFileBytes);
  Json json = parse_json_text<Json>(text, place);
  if (!json.is_object() || !json.contains(kFormatKey)) {
    return results_of_bench(std::move(text), place);
  }
  if (json[kFormatKey] != kFormat) {
    throw ConfigError(place + ": " + kFormatKey + " is " + shown(json[kFormatKey]) +
                      ", and this strata reads " + std::to_string(kFormat) +
                      "; use the strata that wrote it");
  }
  SuiteResults results;
  results.suite = member(json, "suite", Json::value_t::string, place).get<std::string>();
  results.title = member(json, "title", Json::value_t::string, place).get<std::string>();
  read_known(results.provenance, member(json, "provenance", Json::value_t::object, place),
             place + ": provenance");
  const Json& rows = member(json, "rows", Json::value_t::array, place);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    results.rows.push_back(read_row_record(rows[i], place + ": row " + std::to_string(i + 1)));
  }
  return results;
}

std::vector<std::string> differing_provenance(const Provenance& a, const Provenance& b) {
  std::vector<std::string> paths = differing_fields(a, b);
  std::erase_if(paths, [](const std::string& path) { return path == "date" || path == "command"; });
  return paths;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

}  // namespace strata
