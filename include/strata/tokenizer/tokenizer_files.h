// The files that make a tokenizer, as they go along with a model: into the folder beside a token
// file, and into the folders of models that a run saves.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/file.h"

namespace strata {

/// A file, and the name that programs look for it under in a model's folder.
struct TokenizerFile {
  std::string name;
  std::filesystem::path path;
  Links links = Links::kOfModel;
  /// Returns its text. Throws IoError if it cannot be read.
  [[nodiscard]] std::string read() const;
};

/// Returns the file of a tokenizer, given as that or by its folder, and what lies beside it: the
/// names of its special tokens, and the chat templates. Throws IoError if the folder has none, or
/// cannot be searched.
[[nodiscard]] std::vector<TokenizerFile> tokenizer_files(const std::string& folder_or_file);
/// Tells whether a file of this name makes ids, without the files beside it.
[[nodiscard]] bool is_tokenizer_name(std::string_view name);
/// Tells whether tokenizer_files() may have a file of this name.
[[nodiscard]] bool is_of_tokenizer(std::string_view name);

/// The name of the file that has the names of special tokens, and the class for transformers.
inline constexpr std::string_view kTokenizerConfigName = "tokenizer_config.json";
/// The name of the file with the chat template.
inline constexpr std::string_view kChatTemplateName = "chat_template.jinja";
/// The folder in a model's folder that has templates for other uses, each a file NAME.jinja.
inline constexpr std::string_view kOtherTemplates = "additional_chat_templates";

/// Returns the names of those of a model's folder, "additional_chat_templates/tool_use.jinja".
[[nodiscard]] std::vector<std::string> other_template_names(const std::filesystem::path& folder);
/// Tells whether a name is such a one.
[[nodiscard]] bool is_other_template(std::string_view name);

}  // namespace strata
