// Reads and writes file sources as JSON. A source without a weight is the only one, so its files
// need no object around them.

#include "base/file_sources_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace strata {

namespace {

using Json = nlohmann::ordered_json;

/// Returns a path or a list of some, none of them empty.
std::optional<FileSource> to_source(const Json& json) {
  FileSource source;
  const Json list = json.is_array() ? json : Json::array({json});
  for (const Json& item : list) {
    const std::optional<std::string> file = name_of_json(item);
    if (!file || file->empty()) return std::nullopt;
    source.files.push_back(*file);
  }
  return source.files.empty() ? std::nullopt : std::optional(source);
}

/// Reads an object {"path", "weight"}.
std::optional<FileSource> to_weighted_source(const Json& json) {
  if (!json.is_object() || !json.contains("path") || !json.contains("weight")) return std::nullopt;
  std::optional<FileSource> source = to_source(json["path"]);
  if (!source || json.size() != 2 || !json["weight"].is_number()) return std::nullopt;
  source->weight = json["weight"].get<double>();
  return source;
}

Json files_to_json(const std::vector<std::string>& files) {
  return files.size() == 1 ? Json(files[0]) : Json(files);
}

}  // namespace

std::optional<std::string> name_of_json(const Json& json) {
  if (!json.is_string()) return std::nullopt;
  std::string name = json.get<std::string>();
  if (name.find('\0') != std::string::npos) return std::nullopt;
  return name;
}

std::optional<FileSources> sources_of_json(const Json& json) {
  if (const std::optional<std::string> file = name_of_json(json)) return FileSources(*file);
  if (!json.is_array()) return std::nullopt;
  FileSources sources;
  const bool weighted =
      std::ranges::any_of(json, [](const Json& item) { return item.is_object(); });
  if (!weighted) {
    const std::optional<FileSource> source = to_source(json);
    if (!source) return std::nullopt;
    sources.list.push_back(*source);
    return sources;
  }
  for (const Json& item : json) {
    const std::optional<FileSource> source = to_weighted_source(item);
    if (!source) return std::nullopt;
    sources.list.push_back(*source);
  }
  return sources;
}

Json json_of_sources(const FileSources& sources) {
  if (sources.empty()) return "";
  if (sources.list.size() == 1 && !sources.list[0].weight) {
    return files_to_json(sources.list[0].files);
  }
  Json list = Json::array();
  for (const FileSource& source : sources.list) {
    list.push_back({{"path", files_to_json(source.files)}, {"weight", source.weight.value_or(1)}});
  }
  return list;
}

}  // namespace strata
