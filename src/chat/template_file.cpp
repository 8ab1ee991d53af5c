// Finds the template that a user names, or that a model brings along. Files of templates count more
// than tokenizer_config.json, as for transformers.

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/chat/chat_template.h"

namespace strata {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostConfigBytes = std::size_t{64} << 20;

bool exists(const fs::path& file) {
  std::error_code error;
  return fs::exists(file, error);
}

Json parse_config(const std::string& file) {
  try {
    return parse_json<Json>(read_text_file(file, kMostConfigBytes, Links::kOfModel));
  } catch (const Json::exception& error) {
    throw IoError(file + ": is not JSON: " + json_problem(error));
  } catch (const ConfigError& error) {
    throw IoError(file + ": " + error.what());
  }
}

/// The texts of the templates that a model has, and where they stand.
struct Sources {
  struct Source {
    std::string text;
    std::string place;
  };
  std::optional<Source> usual{};
  std::optional<Source> for_tools{};
};

/// Returns the one of that name in a list of named templates.
std::optional<Sources::Source> named(const Json& list, const char* name, const std::string& place) {
  for (const Json& entry : list) {
    const bool is_named = entry.is_object() && entry.value("name", Json()) == name;
    if (!is_named || !entry.value("template", Json()).is_string()) continue;
    return Sources::Source{.text = entry["template"].get<std::string>(), .place = place};
  }
  return std::nullopt;
}

/// Returns what tokenizer_config.json holds: a text, or a list of named ones.
Sources templates_of_config(const Json& config, const std::string& file) {
  const std::string place = file + ": $.chat_template";
  if (!config.is_object()) return {};
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return {};
  Sources sources;
  if (found->is_string()) {
    sources.usual = Sources::Source{.text = found->get<std::string>(), .place = place};
  } else if (found->is_array()) {
    sources.usual = named(*found, "default", place);
    sources.for_tools = named(*found, "tool_use", place);
  }
  if (sources.usual) return sources;
  throw IoError(place + ": neither a text nor a list with one named \"default\"");
}

std::optional<Sources::Source> template_of_file(const fs::path& file) {
  if (!is_there(file)) return std::nullopt;
  return Sources::Source{.text = read_text_file(file.string(), kMostConfigBytes, Links::kOfModel),
                         .place = file.string()};
}

/// Returns the templates of a model's folder.
Sources templates_in(const fs::path& folder) {
  const fs::path others = folder / "additional_chat_templates";
  std::error_code error;
  if (fs::is_symlink(others, error)) {
    throw IoError(others.string() + ": is a link; put the folder itself there (cp -rL)");
  }
  const fs::path file_for_tools = others / "tool_use.jinja";
  Sources sources{.usual = template_of_file(folder / "chat_template.jinja"),
                  .for_tools = template_of_file(file_for_tools)};
  const std::string config = (folder / "tokenizer_config.json").string();
  if (!sources.usual && is_there(config)) {
    Sources of_config = templates_of_config(parse_config(config), config);
    sources.usual = std::move(of_config.usual);
    if (!sources.for_tools) sources.for_tools = std::move(of_config.for_tools);
  }
  if (sources.usual || !sources.for_tools) return sources;
  throw IoError(file_for_tools.string() +
                ": is for conversations with tools, and there is no template for others; put one "
                "beside the tokenizer as chat_template.jinja");
}

}  // namespace

ChatTemplate ChatTemplate::load(const std::string& name_or_file) {
  const auto names = built_in_names();
  if (std::find(names.begin(), names.end(), name_or_file) != names.end()) {
    return built_in(name_or_file);
  }
  if (!exists(name_or_file)) {
    std::string known;
    for (const std::string_view name : names)
      known += (known.empty() ? "" : ", ") + std::string(name);
    throw ConfigError("the chat template " + name_or_file +
                      " is neither a file nor a template of strata's own (" + known + ")");
  }
  return parse(read_text_file(name_or_file, kMostConfigBytes), name_or_file);
}

std::optional<ChatTemplate> ChatTemplate::of_model(const std::string& folder_or_file) {
  std::error_code error;
  fs::path folder(folder_or_file);
  if (!fs::is_directory(folder, error)) folder = folder.parent_path();
  const Sources sources = templates_in(folder);
  if (!sources.usual) return std::nullopt;
  ChatTemplate usual = parse(sources.usual->text, sources.usual->place);
  if (!sources.for_tools) return usual;
  return joined(std::move(usual), parse(sources.for_tools->text, sources.for_tools->place));
}

}  // namespace strata
