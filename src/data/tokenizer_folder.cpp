// Writes and reads the folder beside a token file. Files are written by their names one by one, so
// whatever else somebody put into such a folder is never removed.

#include "strata/data/tokenizer_folder.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/output_file.h"
#include "strata/base/temporary.h"
#include "strata/base/text.h"
#include "strata/tokenizer/tokenizer_files.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".tokenizer";

/// Returns the output of which a file is a shard: "train.bin" of "train-00002.bin".
std::optional<std::string> output_of_shard(const fs::path& file) {
  constexpr std::size_t kNumber = 6;  // "-00002"
  const std::string stem = file.stem().string();
  if (stem.size() <= kNumber || stem[stem.size() - kNumber] != '-') return std::nullopt;
  const std::string digits = stem.substr(stem.size() - kNumber + 1);
  if (!std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  return (file.parent_path() / stem.substr(0, stem.size() - kNumber)).string() +
         file.extension().string();
}

bool is_folder(const fs::path& name) {
  std::error_code ignored;
  return fs::is_directory(fs::symlink_status(name, ignored));
}

void remove_known_files(const fs::path& folder) {
  std::error_code ignored;
  for (fs::directory_iterator at(folder, ignored), end; !ignored && at != end;
       at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    std::error_code stays;
    if (is_in_tokenizer_folder(name)) fs::remove(at->path(), stays);
  }
  const fs::path templates = folder / kOtherTemplates;
  for (fs::directory_iterator at(templates, ignored), end;
       is_folder(templates.string()) && !ignored && at != end; at.increment(ignored)) {
    std::error_code stays;
    if (at->path().extension() == ".jinja") fs::remove(at->path(), stays);
  }
  if (is_folder(templates.string())) fs::remove(templates, ignored);
  fs::remove(folder, ignored);
}

}  // namespace

std::string tokenizer_folder(const std::string& token_file) {
  return token_file + std::string(kEnding);
}

std::optional<std::string> tokenizer_folder_of(const std::string& token_file) {
  std::string folder = tokenizer_folder(token_file);
  if (is_folder(folder)) return folder;
  const std::optional<std::string> output = output_of_shard(token_file);
  if (!output) return std::nullopt;
  folder = tokenizer_folder(*output);
  if (!is_folder(folder)) return std::nullopt;
  return folder;
}

NewTokenizerFolder::NewTokenizerFolder(const std::string& token_file, const std::string& tokenizer,
                                       const ChatTemplate* other_template, const TurnEnd& end)
    : name_(tokenizer_folder(token_file)), temporary_(name_beside(name_, "tmp")) {
  std::error_code error;
  fs::create_directory(temporary_, error);
  if (error) {
    throw IoError(printable_name(name_) + ": the folder cannot be made: " + error.message());
  }
  try {
    for (const TokenizerFile& file : tokenizer_files(tokenizer)) {
      const bool is_other = is_other_template(file.name);
      if (other_template != nullptr && (is_other || file.name == kChatTemplateName)) continue;
      if (is_other) fs::create_directory(temporary_ / kOtherTemplates, error);
      write_file((temporary_ / file.name).string(), file.read());
    }
    if (other_template != nullptr) {
      write_file((temporary_ / kChatTemplateName).string(), other_template->source());
    }
    if (end.id) {
      write_file((temporary_ / kGenerationConfigName).string(),
                 "{\"eos_token_id\": " + std::to_string(*end.id) + "}\n");
    }
  } catch (...) {
    remove_known_files(temporary_);
    throw;
  }
}

NewTokenizerFolder::~NewTokenizerFolder() {
  if (!temporary_.empty()) remove_known_files(temporary_);
}

void NewTokenizerFolder::publish() {
  std::error_code error;
  if (is_folder(name_)) remove_known_files(name_);
  fs::rename(temporary_, name_, error);
  if (error) {
    throw Error(printable_name(name_) + ": the folder of the tokenizer cannot be made: " +
                error.message() + "; move what has the name, and tokenize again");
  }
  temporary_.clear();
}

void remove_tokenizer_folder(const std::string& token_file) {
  remove_tokenizer_files(tokenizer_folder(token_file));
}

void remove_tokenizer_files(const fs::path& folder) {
  if (is_folder(folder)) remove_known_files(folder);
}

bool is_in_tokenizer_folder(std::string_view name) {
  return is_of_tokenizer(name) || name == kGenerationConfigName;
}

}  // namespace strata
