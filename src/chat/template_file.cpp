// Finds the template that a user names, or that a model brings along.

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <system_error>

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

/// Returns the template that tokenizer_config.json holds: a text, or of a list of named ones that
/// with the name "default".
std::optional<std::string> template_of_config(const Json& config, const std::string& file) {
  if (!config.is_object()) return std::nullopt;
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (found->is_array()) {
    for (const Json& entry : *found) {
      const bool named = entry.is_object() && entry.value("name", Json()) == "default";
      if (named && entry.value("template", Json()).is_string()) {
        return entry["template"].get<std::string>();
      }
    }
  }
  throw IoError(file + ": $.chat_template: neither a text nor a list with one named \"default\"");
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
  const std::string own = (folder / "chat_template.jinja").string();
  if (is_there(own)) return parse(read_text_file(own, kMostConfigBytes, Links::kOfModel), own);
  const std::string config = (folder / "tokenizer_config.json").string();
  if (!is_there(config)) return std::nullopt;
  const std::optional<std::string> source = template_of_config(parse_config(config), config);
  if (!source) return std::nullopt;
  return parse(*source, config + ": $.chat_template");
}

}  // namespace strata
