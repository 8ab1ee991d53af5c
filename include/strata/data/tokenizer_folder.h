// The folder beside a token file of conversations, "train.bin.tokenizer": the tokenizer, the chat
// template and the id that ends answers, in files as Hugging Face has them. `tokenize` makes it,
// and a run takes from it what its model leaves with. A token file without one is as good; its
// model does not know how it is talked to.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "strata/chat/chat_template.h"
#include "strata/data/conversation_encoder.h"

namespace strata {

/// The name of the file with the ids that end what a model generates.
inline constexpr const char* kGenerationConfigName = "generation_config.json";

/// Returns the name of the folder of a token file, or of all shards of one.
[[nodiscard]] std::string tokenizer_folder(const std::string& token_file);
/// Returns the folder beside a token file or a shard, if it is there.
[[nodiscard]] std::optional<std::string> tokenizer_folder_of(const std::string& token_file);

/// A folder that gets its name when it is whole; until then the destructor removes it.
class NewTokenizerFolder {
 public:
  /// Makes it under a temporary name, of the files of `tokenizer` (one, or a folder).
  /// `other_template` takes the place of the tokenizer's own; null leaves that. Throws IoError or
  /// Error if files cannot be read or written.
  NewTokenizerFolder(const std::string& token_file, const std::string& tokenizer,
                     const ChatTemplate* other_template, const TurnEnd& end);
  ~NewTokenizerFolder();
  NewTokenizerFolder(const NewTokenizerFolder&) = delete;
  NewTokenizerFolder& operator=(const NewTokenizerFolder&) = delete;
  /// Gives it its name, in place of an earlier one.
  void publish();

 private:
  std::string name_;
  std::filesystem::path temporary_;
};

/// Removes the folder of a token file that was replaced, if there is one: the files that
/// NewTokenizerFolder writes, and the folder if nothing else is in it.
void remove_tokenizer_folder(const std::string& token_file);
/// Does so for a folder of any name that holds such files; nothing for a link, or if there is none.
void remove_tokenizer_files(const std::filesystem::path& folder);
/// Tells whether a file of this name goes along with a model as its tokenizer's: what makes ids and
/// texts of each other, the template, and the ids that end texts.
[[nodiscard]] bool is_in_tokenizer_folder(std::string_view name);

}  // namespace strata
