// `tokenizer add` makes a new folder and leaves the tokenizer that it reads alone: a model would no
// longer fit to its own tokenizer before it was trained with rows for the new tokens.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/text.h"
#include "strata/checkpoint/files.h"
#include "strata/checkpoint/new_folder.h"
#include "strata/commands/commands.h"
#include "strata/model/config.h"
#include "strata/tokenizer/add_tokens.h"
#include "strata/tokenizer/tokenizer.h"
#include "strata/train/next_step.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// Returns the vocabulary of the model in a folder, if one that strata reads lies there.
std::optional<std::int64_t> vocabulary_of_model(const fs::path& folder) {
  try {
    return load_llama_config(folder / "config.json").vocab_size;
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Returns the name of the built-in chat template that writes the tokens, or what stands for one.
std::string template_for(const std::vector<RequestedToken>& tokens) {
  const auto has = [&](std::string_view text) {
    return std::ranges::find(tokens, text, &RequestedToken::text) != tokens.end();
  };
  if (has("<|im_start|>")) return "chatml";
  return has("<|start_header_id|>") ? "llama3" : "TEMPLATE";
}

/// Returns what to do with the new tokenizer: a model that lies beside the old one is trained with
/// it, and gets rows if it has too few.
std::string next_with(const AddTokensCommand& command, const ExtendedTokenizer& extended) {
  const std::int64_t vocabulary = extended.vocabulary;
  const std::string made = shell_word(command.output);
  std::string next = "strata tokenize CHATS --tokenizer " + made + " --chat-template " +
                     template_for(extended.tokens) +
                     " --output train.bin, strata train CONFIG --set ";
  std::error_code ignored;
  const fs::path named = command.tokenizer;
  const fs::path model = fs::is_directory(named, ignored) ? named : named.parent_path();
  const std::optional<std::int64_t> own = vocabulary_of_model(model);
  if (own) next += "model.path=" + shell_word(model) + " --set ";
  next += "model.tokenizer=" + made;
  if (!own || *own < vocabulary) next += " --set model.vocab_size=" + std::to_string(vocabulary);
  return next + " --set data.train=train.bin";
}

/// Throws std::logic_error if the files do not give the tokens the ids that they were promised.
void require_ids(const std::string& folder, const ExtendedTokenizer& extended) {
  const auto made = Tokenizer::load(folder);
  for (const RequestedToken& token : extended.tokens) {
    if (made->id_of(token.text) == token.id && made->is_added(token.id)) continue;
    throw std::logic_error("the new tokenizer.json has another id for " + token.text);
  }
}

}  // namespace

int tokenizer_add_command(const AddTokensCommand& command) {
  const std::unique_ptr<Files> files = make_system_files();
  if (files->kind(command.output) != Files::Kind::kNothing) {
    throw ConfigError(printable_name(command.output.string()) +
                      ": is there already, and nothing is replaced; name another folder");
  }
  const ExtendedTokenizer extended = add_special_tokens(command.tokenizer, command.tokens);
  NewFolder folder(*files, command.output, OldModel::kRefuse);
  for (const TokenizerFileText& file : extended.files) {
    write_whole(*files, folder.path() / file.name, std::as_bytes(std::span(file.text)));
  }
  require_ids(folder.path().string(), extended);
  folder.publish();
  for (const RequestedToken& token : extended.tokens) {
    std::cout << printable_name(token.text) << ' ' << token.id
              << (token.is_new ? "" : ", as before") << '\n';
  }
  std::cout << printable_name(command.output.string()) << ": " << format_count(extended.vocabulary)
            << " ids\n"
            << std::flush;
  say_next(next_with(command, extended));
  return 0;
}

}  // namespace strata
