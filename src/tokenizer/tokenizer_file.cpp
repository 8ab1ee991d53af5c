// Finds and reads the file of a tokenizer. Its kind is told by its contents, since tokenizer.model
// may be SentencePiece's or tiktoken's, and files are renamed.

#include "tokenizer/tokenizer_file.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/base/text.h"
#include "tokenizer/hugging_face_file.h"
#include "tokenizer/sentencepiece_file.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/tekken_file.h"
#include "tokenizer/tiktoken_file.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFileBytes = std::size_t{512} << 20;

/// Returns what `parse` makes of a file's contents; its ConfigError gets the file's name.
template <class Parse>
auto parse_file(const std::string& file, Links links, const Parse& parse) {
  try {
    return parse(read_text_file(file, kMostFileBytes, links));
  } catch (const nlohmann::json::exception& error) {
    throw ConfigError(file + ": is not JSON: " + json_problem(error));
  } catch (const ConfigError& error) {
    throw ConfigError(file + ": " + error.what());
  }
}

bool is_json(const fs::path& file, std::string_view contents) {
  if (file.extension() == ".json") return true;
  const std::size_t first = contents.find_first_not_of(" \t\r\n");
  return first != contents.npos && contents[first] == '{' && !is_sentencepiece(contents);
}

TokenizerParts parts_of(const fs::path& file, std::string_view contents) {
  if (is_json(file, contents)) {
    const TokenizerJson json = parse_tokenizer_json(contents);
    return is_tekken(json.tree) ? tekken_parts(json.tree) : hugging_face_parts(json);
  }
  if (is_sentencepiece(contents)) return sentencepiece_parts(contents);
  if (is_tiktoken(contents)) return tiktoken_parts(contents);
  throw ConfigError(
      "is neither JSON nor a model of SentencePiece nor ranks of tiktoken; name the "
      "tokenizer.json, "
      "tekken.json, tokenizer.model or .tiktoken file of a model");
}

FileBeside read_beside(const fs::path& file) {
  if (!is_there(file)) return {};
  return {.file = file.string(),
          .json = parse_file(file.string(), Links::kOfModel, [](const std::string& contents) {
            return parse_json<nlohmann::json>(contents);
          })};
}

}  // namespace

std::optional<std::string> tokenizer_file_in(const std::string& folder) {
  std::error_code error;
  const auto require_known = [&] {
    const bool is_missing =
        error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
    if (!error || is_missing) return;
    throw IoError(printable_name(folder) + ": cannot be searched for a tokenizer: " +
                  error.message() + "; name a folder that this user can read");
  };
  for (const char* name : {"tokenizer.json", "tekken.json", "tokenizer.model"}) {
    const fs::path file = fs::path(folder) / name;
    if (fs::exists(fs::symlink_status(file, error))) return file.string();
    require_known();
  }
  std::vector<std::string> found;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".tiktoken") found.push_back(at->path().string());
  }
  require_known();
  if (found.empty()) return std::nullopt;
  return *std::min_element(found.begin(), found.end());
}

TokenizerParts read_tokenizer_file(const std::string& path) {
  std::string file = path;
  Links links = Links::kFollow;
  if (fs::is_directory(path)) {
    file = tokenizer_file_in(path).value_or((fs::path(path) / "tokenizer.json").string());
    links = Links::kOfModel;
  }
  TokenizerParts parts = parse_file(
      file, links, [&](const std::string& contents) { return parts_of(fs::path(file), contents); });
  parts.file = file;
  const fs::path folder = fs::path(file).parent_path();
  add_files_beside({.config = read_beside(folder / "tokenizer_config.json"),
                    .map = read_beside(folder / "special_tokens_map.json"),
                    .added = read_beside(folder / "added_tokens.json")},
                   parts);
  return parts;
}

}  // namespace strata
