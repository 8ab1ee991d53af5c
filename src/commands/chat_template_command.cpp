// `chat-template` prints templates byte by byte, so that what it prints can be saved as
// chat_template.jinja.

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/text.h"
#include "strata/chat/chat_template.h"
#include "strata/checkpoint/model_folder.h"
#include "strata/commands/generate.h"
#include "strata/runfiles/find_checkpoint.h"
#include "strata/runfiles/run_folder.h"
#include "strata/tokenizer/tokenizer.h"
#include "strata/train/run_tokenizer.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

std::string built_in_list() {
  std::string names;
  for (const std::string_view name : ChatTemplate::built_in_names()) {
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names;
}

/// Returns the folder of the model, which may lie in a checkpoint or a run.
fs::path model_folder_of(const fs::path& named) {
  std::error_code error;
  const bool holds_tokenizer =
      fs::is_regular_file(named, error) ||
      (fs::is_directory(named, error) && Tokenizer::file_in(named.string()));
  if (holds_tokenizer) return named;
  const fs::path of_run = named / kRunTokenizerName;
  if (fs::is_directory(of_run, error)) return of_run;
  const std::unique_ptr<Files> files = make_system_files();
  const NamedFolder found = find_named_folder(*files, named);
  return found.checkpoint ? found.checkpoint->folder / kModelFolder : named;
}

ChatTemplate template_named(const std::string& name) {
  std::error_code error;
  if (!fs::exists(name, error)) {
    throw ConfigError(printable_name(shortened(name)) + ": is neither a built-in template (" +
                      built_in_list() + ") nor a model, a checkpoint or a run folder");
  }
  std::optional<ChatTemplate> found = ChatTemplate::of_model(model_folder_of(name).string());
  if (found) return std::move(*found);
  throw ConfigError(printable_name(name) + ": has no chat template; those built in are " +
                    built_in_list());
}

}  // namespace

int chat_template_command(const std::string& name) {
  for (const std::string_view known : ChatTemplate::built_in_names()) {
    if (known != name) continue;
    std::cout << ChatTemplate::built_in(known).source() << std::endl;
    return 0;
  }
  std::cout << template_named(name).source() << std::endl;
  return 0;
}

}  // namespace strata
