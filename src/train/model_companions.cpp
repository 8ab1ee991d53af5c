// Files are put over those of the model by name, and read once, before the first step.

#include "train/model_companions.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/base/file.h"
#include "strata/base/log.h"
#include "strata/data/tokenizer_folder.h"
#include "strata/model/generation_defaults.h"
#include "strata/tokenizer/tokenizer.h"
#include "strata/tokenizer/tokenizer_files.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

constexpr const char* kConfigName = "config.json";

bool has(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// The folders beside the token files, in their order.
Names tokenizer_folders(const FileSources& sources) {
  Names folders;
  for (const std::string& file : sources.files()) {
    const auto folder = tokenizer_folder_of(file);
    if (folder && !has(folders, *folder)) folders.push_back(*folder);
  }
  return folders;
}

/// Returns the tokenizer that goes before the model's own, or takes the place of one that it lacks;
/// empty: there is none.
std::string other_tokenizer(const ModelSection& model, bool has_own, const Names& folders) {
  if (!model.tokenizer.empty() || has_own || folders.empty()) return model.tokenizer;
  return folders.front();
}

/// Returns the folders that have a chat template.
Names with_template(Names folders) {
  std::erase_if(folders, [](const std::string& folder) {
    return !is_there(fs::path(folder) / kChatTemplateName);
  });
  return folders;
}

/// Adds the ids that end answers in the training data.
void add_turn_ends(const Names& folders, std::vector<std::int32_t>& ends) {
  for (const std::string& folder : folders) {
    for (const std::int32_t id : load_generation_defaults(folder).end_tokens) {
      if (std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
    }
  }
}

class Collection {
 public:
  Collection(ImportedFiles model, const RunConfig& config)
      : model_(std::move(model)),
        folders_(tokenizer_folders(config.data.train)),
        is_new_(config.model.path.empty()) {
    take_tokenizer(config.model);
    take_template();
    take_end_tokens();
  }

  [[nodiscard]] Companions take() && {
    for (const auto& [name, text] : added_) {
      if (!has(model_.names, name)) model_.names.push_back(name);
    }
    model_.read = [below = std::move(model_.read),
                   added = std::move(added_)](const std::string& name) {
      const auto found = added.find(name);
      return found != added.end() ? found->second : below(name);
    };
    Companions companions{.files = std::move(model_)};
    if (is_new_) {
      companions.begin = begin_;
      companions.end = end_;
    }
    return companions;
  }

 private:
  void take_tokenizer(const ModelSection& config) {
    const bool has_own = std::ranges::any_of(model_.names, is_tokenizer_name);
    const std::string from = other_tokenizer(config, has_own, folders_);
    if (from.empty()) return;
    std::erase_if(model_.names, is_of_tokenizer);
    bool has_config = false;
    bool is_json = false;
    for (const TokenizerFile& file : tokenizer_files(from)) {
      added_[file.name] = file.read();
      has_config |= file.name == kTokenizerConfigName;
      is_json |= file.name == "tokenizer.json";
    }
    // Without a class transformers would take that of other LLaMAs, which cuts words otherwise.
    if (is_json && !has_config) {
      added_[std::string(kTokenizerConfigName)] =
          "{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}\n";
    }
    const auto tokenizer = Tokenizer::load(from);
    const SpecialTokens special = tokenizer->special_tokens();
    if (tokenizer->vocabulary() > config.llama.vocab_size) {
      log::warn(
          "{} has {} ids, more than model.vocab_size, so no program can use it with the model; set "
          "model.vocab_size to {}, or name the model's own tokenizer",
          from, tokenizer->vocabulary(), tokenizer->vocabulary());
    }
    end_ = special.eos;
    begin_ = special.bos;
  }

  void take_template() {
    std::string taken_from;
    for (const std::string& folder : with_template(folders_)) {
      const fs::path path = fs::path(folder) / kChatTemplateName;
      const std::string text = TokenizerFile{.name = {}, .path = path}.read();
      std::string& taken = added_[std::string(kChatTemplateName)];
      if (taken_from.empty()) {
        taken = text;
        taken_from = folder;
        take_other_templates(folder);
      } else if (taken != text) {
        log::warn(
            "data.train: the chat template in {} is another one than in {}, which the model "
            "leaves with; train on conversations of one template",
            folder, taken_from);
      }
    }
  }

  /// Takes what belongs to the template of a folder in place of what the model had for its own.
  void take_other_templates(const fs::path& folder) {
    std::erase_if(model_.names, is_other_template);
    std::erase_if(added_, [](const auto& file) { return is_other_template(file.first); });
    for (const std::string& name : other_template_names(folder)) {
      added_[name] = TokenizerFile{.name = name, .path = folder / name}.read();
    }
  }

  /// Returns the ids that end texts of the model itself.
  [[nodiscard]] std::vector<std::int32_t> own_end_tokens() const {
    for (const char* name : {kGenerationConfigName, kConfigName}) {
      if (!has(model_.names, name)) continue;
      std::vector<std::int32_t> ids = end_tokens_in(model_.read(name), name);
      if (!ids.empty()) return ids;
    }
    std::optional<std::int32_t> end = end_;
    if (!end && !folders_.empty()) end = Tokenizer::load(folders_.front())->special_tokens().eos;
    return end ? std::vector{*end} : std::vector<std::int32_t>();
  }

  void take_end_tokens() {
    std::vector<std::int32_t> ends = own_end_tokens();
    const std::size_t own = ends.size();
    add_turn_ends(folders_, ends);
    const bool is_known = ends.size() == own && has(model_.names, kGenerationConfigName);
    if (ends.empty() || is_known || (ends.size() == own && added_.empty())) return;
    std::optional<std::string> imported;
    if (has(model_.names, kGenerationConfigName)) imported = model_.read(kGenerationConfigName);
    added_[kGenerationConfigName] =
        generation_config_text(imported, kGenerationConfigName, begin_, ends);
  }

  ImportedFiles model_;
  Names folders_;
  bool is_new_;  ///< whether the run began without a model
  std::map<std::string, std::string> added_;
  std::optional<std::int32_t> begin_;
  std::optional<std::int32_t> end_;
};

}  // namespace

Companions with_companions(ImportedFiles model, const RunConfig& config) {
  return Collection(std::move(model), config).take();
}

Companions companions_of_run(const CheckpointPlace& place, const RunConfig& config) {
  ImportedFiles model;
  if (place.resume) {
    model = files_of_checkpoint(*place.files, *place.resume);
  } else if (!config.model.path.empty()) {
    model = files_of_model(config.model.path);
  }
  return with_companions(std::move(model), config);
}

ModelTextOptions texts_of_run(const RunConfig& config) {
  const ModelSection& model = config.model;
  const Names folders = tokenizer_folders(config.data.train);
  const bool has_own = !model.path.empty() && Tokenizer::file_in(model.path);
  ModelTextOptions options{.folder = model.path,
                           .tokenizer = other_tokenizer(model, has_own, folders),
                           .tokenizer_key = "model.tokenizer",
                           .vocabulary = model.llama.vocab_size};
  const Names talked_to = with_template(folders);
  if (!talked_to.empty()) {
    options.chat_template = (fs::path(talked_to.front()) / kChatTemplateName).string();
  }
  return options;
}

std::vector<std::int32_t> ends_of_run(const RunConfig& config, const ModelText& text) {
  std::vector<std::int32_t> ends;
  if (!config.model.path.empty()) ends = load_generation_defaults(config.model.path).end_tokens;
  if (const auto end = text.end_token(); end && ends.empty()) ends.push_back(*end);
  add_turn_ends(tokenizer_folders(config.data.train), ends);
  return ends;
}

}  // namespace strata
