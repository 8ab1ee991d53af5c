// Lists the files of a tokenizer. A file that the user names may be called anything; in a model's
// folder it gets the name by which other programs find it.

#include "strata/tokenizer/tokenizer_files.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <system_error>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/text.h"
#include "tokenizer/tokenizer_file.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{512} << 20;
constexpr std::string_view kJson = "tokenizer.json";
constexpr std::string_view kModel = "tokenizer.model";
constexpr std::string_view kTekken = "tekken.json";
constexpr std::string_view kRanks = ".tiktoken";
constexpr std::array<std::string_view, 6> kBeside{"added_tokens.json",  kChatTemplateName,
                                                  "merges.txt",         "special_tokens_map.json",
                                                  kTokenizerConfigName, "vocab.json"};

std::string name_in_model(const fs::path& file) {
  const std::string name = file.filename().string();
  if (is_tokenizer_name(name)) return name;
  return std::string(file.extension() == ".json" ? kJson : kModel);
}

}  // namespace

bool is_tokenizer_name(std::string_view name) {
  return name == kJson || name == kModel || name == kTekken || name.ends_with(kRanks);
}

bool is_of_tokenizer(std::string_view name) {
  return is_tokenizer_name(name) || std::ranges::find(kBeside, name) != kBeside.end() ||
         is_other_template(name);
}

bool is_other_template(std::string_view name) {
  if (!name.starts_with(kOtherTemplates) || !name.ends_with(".jinja")) return false;
  name.remove_prefix(kOtherTemplates.size());
  return name.starts_with('/') && name.find('/', 1) == name.npos;
}

std::vector<std::string> other_template_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  const fs::path templates = folder / kOtherTemplates;
  if (fs::is_symlink(templates, error)) {
    throw IoError(printable_name(templates.string()) +
                  ": is a link, which may lead out of the model's folder; put the folder itself "
                  "there (cp -rL)");
  }
  for (fs::directory_iterator at(templates, error), end; !error && at != end; at.increment(error)) {
    std::string name = std::string(kOtherTemplates) + '/' + at->path().filename().string();
    if (is_other_template(name)) names.push_back(std::move(name));
  }
  if (is_there(templates) && error) {
    throw IoError(printable_name(templates.string()) +
                  ": cannot be searched for templates: " + error.message());
  }
  std::ranges::sort(names);
  return names;
}

std::vector<TokenizerFile> tokenizer_files(const std::string& folder_or_file) {
  std::error_code error;
  fs::path file = folder_or_file;
  Links links = Links::kFollow;
  if (fs::is_directory(file, error)) {
    const auto found = tokenizer_file_in(folder_or_file);
    if (!found) {
      throw IoError(printable_name(folder_or_file) +
                    ": has no tokenizer.json, tokenizer.model, tekken.json or .tiktoken file");
    }
    file = *found;
    links = Links::kOfModel;
  }
  std::vector<TokenizerFile> files{{.name = name_in_model(file), .path = file, .links = links}};
  for (const std::string_view name : kBeside) {
    const fs::path beside = file.parent_path() / name;
    if (is_there(beside)) files.push_back({.name = std::string(name), .path = beside});
  }
  for (const std::string& name : other_template_names(file.parent_path())) {
    files.push_back({.name = name, .path = file.parent_path() / name});
  }
  return files;
}

std::string TokenizerFile::read() const { return read_text_file(path, kMostBytes, links); }

}  // namespace strata
