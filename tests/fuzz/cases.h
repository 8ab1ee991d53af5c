// What a case consists of, and who makes one. A case is files in a folder of its own and a command
// line of strata that is run there. Making one only depends on the dice and on the material, which
// is what cases are mutated from.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "fuzz/dice.h"
#include "strata/base/fields.h"

namespace strata::fuzz {

/// A key of the config, from the list of fields that the program itself walks.
struct Key {
  std::string path;
  FieldType type = FieldType::kString;
  bool optional = false;
  std::vector<std::string> choices;
};

/// A value of a config as JSON text, which need not be JSON.
struct Entry {
  std::string path;
  std::string json;
};
using Config = std::vector<Entry>;

/// A file in the folder of a case.
struct CaseFile {
  enum class Kind { kFile, kFolder, kFifo, kLink };
  std::string name;     ///< relative to the folder; its own folders are made
  std::string content;  ///< of a link: where it points
  Kind kind = Kind::kFile;
  bool readable = true;
};

struct Case {
  std::vector<CaseFile> files;
  std::vector<std::string> arguments;
  std::vector<std::string> subjects;  ///< a refusal must name one of them, or any key
  std::vector<std::string> outputs;   ///< files that the command may make, by name
  bool full_output = false;           ///< its standard output is a full device
};

/// What cases are made from: read once, before the first case.
struct Material {
  std::vector<Key> keys;
  Config tiny;                    ///< a run that a CPU does in milliseconds
  std::vector<Config> large;      ///< the configs of the repository, to plan
  std::string train_tokens;       ///< bytes of a token file with document ends
  std::string validation_tokens;  ///< another one
  /// Files of Hugging Face models by the name of the folder; the weights of one are in two shards.
  std::vector<std::vector<CaseFile>> models;
  std::vector<std::string> chat_templates;  ///< of the goldens: one for each feature
  std::string conversation;                 ///< JSON that they render
  std::string loss_tokens;                  ///< a token file with loss bits
  std::vector<std::string> tokenizers;      ///< tokenizer.json files, one for each kind of them
};

/// Reads configs and models below `repository` and makes token files below `scratch`.
[[nodiscard]] Material load_material(const std::filesystem::path& repository,
                                     const std::filesystem::path& scratch);
/// A valid config, or what mutations have left of it, as a text.
[[nodiscard]] std::string write(const Config& config);
/// Sets an entry, or adds it.
void set(Config& config, const std::string& path, const std::string& json);

/// Mutates configs: values, keys, sections, text, `--set` and the rest of the command line.
[[nodiscard]] Case make_config_case(Dice& dice, const Material& material);
/// Mutates the files that commands read.
[[nodiscard]] Case make_file_case(Dice& dice, const Material& material);
/// Mutates chat templates and conversations. The command line is not one of the program, which has
/// no command that renders: render_template does what it says.
[[nodiscard]] Case make_template_case(Dice& dice, const Material& material);
/// Mutates the files of tokenizers.
[[nodiscard]] Case make_tokenizer_case(Dice& dice, const Material& material);
/// Mutates files of records, plain and packed, that are tokenized.
[[nodiscard]] Case make_record_case(Dice& dice, const Material& material);
/// Mutates token files that are inspected.
[[nodiscard]] Case make_token_case(Dice& dice, const Material& material);
/// Renders the template in the current folder by the conversation there, finds what has loss, and
/// returns the exit code.
[[nodiscard]] int render_template();

}  // namespace strata::fuzz
