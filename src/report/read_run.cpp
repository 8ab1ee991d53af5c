// Reads the files of a run folder, each with what may be wrong with it: only a folder without
// metrics is refused, since nothing can be drawn of it. Everything else is a note.

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "report/json_lines.h"
#include "report/metrics_events.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/base/text.h"
#include "strata/report/run_history.h"

namespace strata {

namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kMostConfigBytes = std::size_t{1} << 24;

/// Returns what has this name, a link followed. Throws IoError if the system does not tell: what
/// cannot be looked at is not missing.
fs::file_type type_of(const fs::path& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::none) throw IoError(path.string() + ": " + error.message());
  return type;
}

bool is_file(const fs::path& path) { return type_of(path) == fs::file_type::regular; }

void require_run(const fs::path& folder) {
  if (type_of(folder) == fs::file_type::directory) {
    if (is_file(folder / "metrics.jsonl")) return;
    throw IoError(folder.string() +
                  ": is not the folder of a run, since it has no metrics.jsonl; name what train "
                  "was told as --output or run.output");
  }
  if (is_file(folder)) {
    throw IoError(folder.string() + ": is a file; name the run folder that it is in");
  }
  throw IoError(folder.string() + ": there is no such folder");
}

/// Notes what is damaged in a file of lines.
void note_lines(RunHistory& run, const std::string& file, const ReadLines& read) {
  if (read.damaged_count > 0) {
    std::string which;
    for (const std::int64_t line : read.damaged) {
      which += (which.empty() ? "" : ", ") + std::to_string(line);
    }
    if (read.damaged_count > static_cast<std::int64_t>(read.damaged.size())) which += ", ...";
    run.notes.push_back(file + ": " + format_count(read.damaged_count) + " of " +
                        format_count(read.lines) + " lines are damaged and left out (line " +
                        which + ")");
  }
  if (read.torn) {
    run.notes.push_back(file +
                        ": the last line is written in part and left out; the run is under way, or "
                        "was killed while it wrote");
  }
}

void read_metrics(RunHistory& run) {
  const fs::path file = run.folder / "metrics.jsonl";
  MetricsEvents events(run);
  const ReadLines read =
      read_json_lines(file, [&](const nlohmann::json& line) { return events.take(line); });
  if (!events.any() && read.damaged_count > 0) {
    throw IoError(file.string() + ": none of its lines is an event of a run, so " +
                  run.folder.string() + " is not the folder of a run");
  }
  note_lines(run, "metrics.jsonl", read);
  if (events.lost_lines() > 0) {
    run.notes.push_back("metrics.jsonl: the run could not write " +
                        format_count(events.lost_lines()) + " lines, which are missing here");
  }
  if (run.steps.size() == 0) run.notes.emplace_back("metrics.jsonl: no step has ended yet");
}

/// Adds the values of an object, each with its full path.
void flatten(const OrderedJson& object, const std::string& prefix,
             std::vector<ConfigValue>& values) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object() && !value.empty()) {
      flatten(value, prefix + key + ".", values);
    } else {
      values.push_back(
          {.path = prefix + key, .value = json_text(value, kOneLine, NotUtf8::kReplace)});
    }
  }
}

/// Returns what a config holds, or null if it is damaged: no JSON, or nested too deeply.
OrderedJson parsed_config(const std::string& text) {
  try {
    return parse_json<OrderedJson>(text, JsonComments::kIgnore);
  } catch (const OrderedJson::exception&) {
  } catch (const ConfigError&) {
  }
  return nullptr;
}

void read_config(RunHistory& run) {
  const fs::path file = run.folder / "config.json";
  if (!is_file(file)) {
    run.notes.emplace_back("config.json: is missing");
    return;
  }
  try {
    const OrderedJson config =
        parsed_config(read_text_file(file, kMostConfigBytes, Links::kRefuse));
    if (config.is_object()) return flatten(config, "", run.config);
    run.notes.emplace_back("config.json: is damaged and left out");
  } catch (const IoError& error) {
    run.notes.emplace_back(error.what());
  }
}

/// Returns the value of a key, or nothing if the config lacks it.
std::string value_of(const RunHistory& run, const std::string& path) {
  const auto at = std::ranges::find(run.config, path, &ConfigValue::path);
  return at == run.config.end() ? std::string() : at->value;
}

/// Returns how many samples are drawn at a time, or 0 if the config does not tell.
std::size_t samples_at_a_time(const RunHistory& run) {
  const OrderedJson prompts = parsed_config(value_of(run, "run.sample_prompts"));
  return prompts.is_array() ? std::max<std::size_t>(1, prompts.size()) : 0;
}

/// Returns the prompt of a sample; a conversation has a line for each message.
std::string prompt_of(const nlohmann::json& line) {
  const auto prompt = line.find("prompt");
  if (prompt == line.end() || !prompt->is_object()) return text_of(line, "prompt");
  const auto messages = prompt->find("messages");
  if (messages == prompt->end() || !messages->is_array()) return {};
  std::string text;
  for (const nlohmann::json& message : *messages) {
    text += text_of(message, "role") + ": " + text_of(message, "content") + "\n";
  }
  return text + "assistant: ";
}

void read_samples(RunHistory& run) {
  const fs::path file = run.folder / "samples.jsonl";
  if (!is_file(file)) return;
  const std::size_t at_a_time = samples_at_a_time(run);
  std::size_t of_step = 0;  // samples of the newest step
  const auto take = [&](const nlohmann::json& line) {
    const std::optional<std::int64_t> step = step_of(line);
    if (!step || !line.contains("text")) return false;
    const bool same = !run.samples.empty() && run.samples.back().step == *step;
    const bool again = same && at_a_time > 0 && of_step >= at_a_time;
    if (!same || again) {
      // The run went back: what it drew later than this is drawn again.
      std::erase_if(run.samples, [&](const DrawnSample& s) { return s.step >= *step; });
      of_step = 0;
    }
    ++of_step;
    run.samples.push_back({.step = *step,
                           .prompt = prompt_of(line),
                           .text = text_of(line, "text"),
                           .finish_reason = text_of(line, "finish_reason")});
    return true;
  };
  try {
    note_lines(run, "samples.jsonl", read_json_lines(file, take));
  } catch (const IoError& error) {
    run.notes.emplace_back(error.what());
  }
}

void read_trace_file(RunHistory& run) {
  const fs::path file = run.folder / "trace.json";
  if (!is_file(file)) return;
  try {
    TraceEvents trace = read_trace(file);
    if (!trace.whole) {
      run.notes.emplace_back(
          "trace.json: is damaged or written in part; what is whole of it is shown");
    }
    if (!trace.lanes.empty()) run.trace = std::move(trace);
  } catch (const IoError& error) {
    run.notes.emplace_back(error.what());
  }
}

/// Returns a text with a mark in the place of what is not UTF-8, as names of files may hold.
std::string as_utf8(const std::string& text) {
  return parse_json<OrderedJson>(json_text(OrderedJson(text), kOneLine, NotUtf8::kReplace))
      .get<std::string>();
}

/// Returns the last `parts` parts of a path.
std::string end_of(const fs::path& path, std::size_t parts) {
  std::vector<fs::path> all(path.begin(), path.end());
  fs::path end;
  for (std::size_t i = all.size() > parts ? all.size() - parts : 0; i < all.size(); ++i) {
    end /= all[i];
  }
  return end.string();
}

}  // namespace

RunHistory read_run(const fs::path& folder) {
  require_run(folder);
  RunHistory run;
  run.folder = folder;
  read_metrics(run);
  read_config(run);
  read_samples(run);
  read_trace_file(run);
  return run;
}

void name_runs(std::vector<RunHistory>& runs) {
  std::vector<fs::path> paths;
  std::size_t longest = 1;
  for (const RunHistory& run : runs) {
    std::error_code error;
    fs::path full = fs::weakly_canonical(run.folder, error);
    if (error) full = run.folder;
    paths.push_back(full.has_filename() ? full : full.parent_path());  // "runs/first/"
    longest = std::max(longest, static_cast<std::size_t>(std::ranges::distance(paths.back())));
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (std::size_t parts = 1; parts <= longest; ++parts) {
      runs[i].name = end_of(paths[i], parts);
      if (std::ranges::count_if(paths, [&](const fs::path& other) {
            return end_of(other, parts) == runs[i].name;
          }) == 1) {
        break;
      }
    }
    runs[i].name = as_utf8(runs[i].name);
    if (std::ranges::count(paths, paths[i]) > 1) runs[i].name += " (" + std::to_string(i + 1) + ")";
  }
}

std::vector<ConfigDifference> config_differences(const std::vector<RunHistory>& runs) {
  std::vector<std::string> paths;
  for (const RunHistory& run : runs) {
    for (const ConfigValue& value : run.config) {
      if (std::ranges::find(paths, value.path) == paths.end()) paths.push_back(value.path);
    }
  }
  std::vector<ConfigDifference> differences;
  for (const std::string& path : paths) {
    if (path == "run.output") continue;
    ConfigDifference difference{.path = path};
    std::set<std::string> values;  // in the configs that were read
    for (const RunHistory& run : runs) {
      difference.values.push_back(value_of(run, path));
      if (!run.config.empty()) values.insert(difference.values.back());
    }
    if (values.size() > 1) differences.push_back(std::move(difference));
  }
  return differences;
}

}  // namespace strata
