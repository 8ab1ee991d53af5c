// Reads suites. A suite's file is an object with groups of settings and a list of rows. Objects are
// read by lists of fields like a config, so that what is wrong is said by key; the lists of the
// JSON around them are walked here.

#include "strata/benchmark/suite.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/base/shell_word.h"
#include "strata/base/text.h"

namespace strata {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostSuiteBytes = std::size_t{1} << 20;
constexpr double kMostRepeats = 1000;
constexpr double kMostMinutes = 7 * 24 * 60;

/// The members of a suite that are no lists, with what rows have if they say nothing.
struct SuiteHead {
  std::string title;
  std::int64_t repeats = 3;
  double limit_minutes = 60;
  void fields(FieldList& f) {
    f.add("title", title, "what the suite is about");
    f.add("repeats", repeats, "how often each row is measured").from(1, kMostRepeats);
    f.add("limit_minutes", limit_minutes, "a run that takes longer has failed")
        .from(0.01, kMostMinutes);
  }
};

/// A row as it is written.
struct SuiteRowText {
  std::string name;
  std::string title;
  std::string config;
  std::vector<std::string> use;
  std::vector<std::string> set;
  std::optional<SuiteGeneration> generate;
  std::optional<std::int64_t> repeats;
  std::optional<double> limit_minutes;
  void fields(FieldList& f) {
    f.add("name", name, "letters, digits, and . _ -");
    f.add("title", title, "what is measured");
    f.add("config", config, "a run config, from the folder of the suite on");
    f.add("use", use, "groups of `settings` that are set");
    f.add("set", set, "further settings, key=value");
    f.add("generate", generate, "prompts that are continued instead of steps");
    f.add("repeats", repeats, "the suite's if absent").from(1, kMostRepeats);
    f.add("limit_minutes", limit_minutes, "the suite's if absent").from(0.01, kMostMinutes);
  }
};

using Groups = std::map<std::string, std::vector<std::string>>;

/// Reads an object into fields, with limits; `place` begins what is said of it.
template <HasFields T>
void read_object(T& object, const Json& json, const std::string& place) {
  if (!json.is_object()) {
    throw ConfigError(place + ": is " + shown(json) + ", and an object is expected");
  }
  read_fields(object, json_text(json, kOneLine, NotUtf8::kReplace), place);
  ConfigProblems problems;
  check_limits(fields_of(object), "", problems);
  problems.throw_if_any(place);
}

std::vector<std::string> read_texts(const Json& json, const std::string& place) {
  const bool texts = json.is_array() &&
                     std::ranges::all_of(json, [](const Json& text) { return text.is_string(); });
  if (!texts) {
    throw ConfigError(place + ": is " + shown(json) + ", and a list of \"key=value\" is expected");
  }
  return json.get<std::vector<std::string>>();
}

/// Throws for a setting that is none. Whether there is such a key the config tells.
void require_settings(std::span<const std::string> sets, const std::string& place) {
  for (const std::string& set : sets) {
    const std::size_t equals = set.find('=');
    if (equals != std::string::npos && equals > 0) continue;
    throw ConfigError(place + ": \"" + printable_name(shortened(set)) +
                      "\" is no setting; write key=value");
  }
}

Groups read_groups(const Json& json, const std::string& place) {
  if (!json.is_object()) {
    throw ConfigError(place + ": is " + shown(json) + ", and an object of lists is expected");
  }
  Groups groups;
  for (const auto& [name, texts] : json.items()) {
    const std::string where = place + "." + printable_name(shortened(name));
    groups[name] = read_texts(texts, where);
    require_settings(groups[name], where);
  }
  return groups;
}

bool is_name(const std::string& text) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !text.empty() && text.find_first_not_of(kLetters) == std::string::npos;
}

std::string names_of(const Groups& groups) {
  std::string names;
  for (const auto& [name, texts] : groups) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "there are none" : "there are " + names;
}

SuiteRow read_row(const Json& json, const std::string& place, const SuiteHead& head,
                  const Groups& groups, const fs::path& folder) {
  SuiteRowText text;
  read_object(text, json, place);
  ConfigProblems problems;
  if (!is_name(text.name)) {
    problems.add("name", "has to be given, of letters, digits and . _ - alone, as --rows takes it");
  }
  if (text.config.empty()) problems.add("config", "has to be given: the run config to measure");
  std::vector<std::string> sets;
  for (const std::string& used : text.use) {
    const auto group = groups.find(used);
    if (group == groups.end()) {
      problems.add("use", "settings has no group \"" + printable_name(shortened(used)) + "\"; " +
                              names_of(groups));
    } else {
      sets.insert(sets.end(), group->second.begin(), group->second.end());
    }
  }
  if (text.generate) check_limits(fields_of(*text.generate), "generate.", problems);
  problems.throw_if_any(place);
  require_settings(text.set, place + ": set");
  sets.insert(sets.end(), text.set.begin(), text.set.end());
  return {.name = text.name,
          .title = text.title.empty() ? text.name : text.title,
          .config = (folder / text.config).lexically_normal(),
          .sets = std::move(sets),
          .generation = text.generate,
          .repeats = text.repeats.value_or(head.repeats),
          .limit_minutes = text.limit_minutes.value_or(head.limit_minutes)};
}

Json parse_suite(const fs::path& file) {
  const std::string text = read_text_file(file, kMostSuiteBytes);
  try {
    return parse_json<Json>(text, JsonComments::kIgnore);
  } catch (const Json::exception& error) {
    throw ConfigError(file.string() + ": is not JSON: " + json_problem(error));
  } catch (const ConfigError& error) {
    throw ConfigError(file.string() + ": " + error.what());
  }
}

/// Takes a member out of an object.
Json take(Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return nullptr;
  Json member = std::move(*found);
  json.erase(found);
  return member;
}

}  // namespace

void SuiteGeneration::fields(FieldList& f) {
  f.add("prompts", prompts, "how many").from(1);
  f.add("prompt_tokens", prompt_tokens, "tokens of each prompt").from(1);
  f.add("max_tokens", max_tokens, "tokens drawn after each").from(1);
  f.add("batch", batch, "prompts that are continued at once; chosen if absent").from(1);
  f.choice("kv_dtype", kv_dtype, kKvDTypeNames, "keys and values: the model's dtype, or int8");
}

Suite read_suite(const fs::path& file) {
  Json json = parse_suite(file);
  const std::string place = file.string();
  if (!json.is_object()) {
    throw ConfigError(place + ": is no suite, which is an object with \"rows\"");
  }
  const Json rows = take(json, "rows");
  if (!rows.is_array() || rows.empty()) {
    throw ConfigError(place + ": rows: is " + (rows.is_null() ? "missing" : shown(rows)) +
                      ", and a list of one row at least is expected");
  }
  const Json settings = take(json, "settings");
  const Groups groups = settings.is_null() ? Groups{} : read_groups(settings, place + ": settings");
  SuiteHead head;
  read_object(head, json, place);
  Suite suite{.name = file.stem().string(), .title = head.title, .file = file, .rows = {}};
  std::set<std::string> names;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::string where = place + ": row " + std::to_string(i + 1);
    if (rows[i].is_object() && rows[i].contains("name") && rows[i]["name"].is_string()) {
      where += " (" + printable_name(shortened(rows[i]["name"].get<std::string>())) + ")";
    }
    suite.rows.push_back(read_row(rows[i], where, head, groups, file.parent_path()));
    if (!names.insert(suite.rows.back().name).second) {
      throw ConfigError(where + ": name: another row has it; rows are told apart by their names");
    }
  }
  return suite;
}

void select_rows(Suite& suite, std::span<const std::string> names) {
  if (names.empty()) return;
  std::string known;
  for (const SuiteRow& row : suite.rows) known += (known.empty() ? "" : ", ") + row.name;
  for (const std::string& name : names) {
    const bool found =
        std::ranges::any_of(suite.rows, [&](const SuiteRow& row) { return row.name == name; });
    if (found) continue;
    throw ConfigError("--rows: " + suite.file.string() + " has no row \"" +
                      printable_name(shortened(name)) + "\"; its rows are " + known);
  }
  std::erase_if(suite.rows, [&](const SuiteRow& row) {
    return std::ranges::find(names, row.name) == names.end();
  });
}

std::vector<std::string> arguments_of(const SuiteRow& row) {
  std::vector<std::string> words{"bench", row.config.string()};
  if (row.generation) {
    const SuiteGeneration& g = *row.generation;
    words.insert(words.end(),
                 {"--generate", "--prompts", std::to_string(g.prompts), "--prompt-tokens",
                  std::to_string(g.prompt_tokens), "--max-tokens", std::to_string(g.max_tokens)});
    if (g.batch) words.insert(words.end(), {"--batch", std::to_string(*g.batch)});
    if (g.kv_dtype != KvDType::kAuto) {
      words.insert(words.end(), {"--kv-dtype", std::string(enum_name(kKvDTypeNames, g.kv_dtype))});
    }
  }
  for (const std::string& set : row.sets) words.insert(words.end(), {"--set", set});
  return words;
}

std::string shell_line(std::span<const std::string> words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

}  // namespace strata
