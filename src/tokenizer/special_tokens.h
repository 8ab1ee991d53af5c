// What the files beside a tokenizer say of special tokens: tokenizer_config.json, and of older
// models special_tokens_map.json and added_tokens.json. They are read as transformers reads them.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tokenizer/json_section.h"
#include "tokenizer/tokenizer_parts.h"

namespace strata {

/// A file beside a tokenizer; null if it is not there.
struct FileBeside {
  std::string file{};
  nlohmann::json json{};
  [[nodiscard]] JsonSection root() const { return {json, file + ": $"}; }
};

struct FilesBeside {
  FileBeside config;  ///< tokenizer_config.json
  FileBeside map;     ///< special_tokens_map.json
  FileBeside added;   ///< added_tokens.json
};

/// Gives the parts of a tokenizer the tokens that it lacks and the files beside it have, and the
/// names of its special tokens. Throws ConfigError, which names file and place, for a bos or eos
/// token that is not in the vocabulary, for a token whose id is another one's, and for what cannot
/// be read.
void add_files_beside(const FilesBeside& beside, TokenizerParts& parts);

}  // namespace strata
