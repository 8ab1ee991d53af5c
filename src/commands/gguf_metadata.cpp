// Puts the keys of a GGUF file together, in the order in which readers expect them: the
// architecture first.

#include "commands/gguf_metadata.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/chat/chat_template.h"
#include "strata/data/byte_tokenizer.h"
#include "strata/model/generation_defaults.h"
#include "strata/tokenizer/gguf_tokenizer.h"
#include "strata/tokenizer/tokenizer.h"

namespace strata {
namespace {

/// Returns llama.cpp's number of what most of a file is.
std::int64_t file_type(GgufType type) {
  switch (type) {
    case GgufType::kF32: return 0;
    case GgufType::kQ80: return 7;
    case GgufType::kBF16: return 32;
  }
  throw std::logic_error("the GGUF type is none that is written");
}

/// Returns the token that ends a turn, where generation ends at more than the end of texts.
std::optional<std::int32_t> end_of_turn(const std::string& folder, std::int32_t eos,
                                        std::int64_t vocabulary) {
  for (const std::int32_t id : load_generation_defaults(folder).end_tokens) {
    if (id != eos && id < vocabulary) return id;
  }
  return std::nullopt;
}

void add_template(const std::string& folder, GgufKeys& keys) {
  try {
    const auto chat = ChatTemplate::of_model(folder);
    if (chat) keys.add_text("tokenizer.chat_template", chat->source());
  } catch (const IoError& error) {
    log::warn("the file has no chat template: {}", error.what());
  }
}

void add_tokenizer(const std::string& folder, std::int64_t vocabulary, GgufKeys& keys) {
  const GgufTokenizer tokenizer = gguf_tokenizer(folder, vocabulary);
  if (!tokenizer.warning.empty()) log::warn("{}; ids of such texts differ", tokenizer.warning);
  keys.append(tokenizer.keys);
  if (const auto id = end_of_turn(folder, tokenizer.eos, vocabulary)) {
    keys.add_count("tokenizer.ggml.eot_token_id", *id);
  }
  add_template(folder, keys);
}

}  // namespace

GgufKeys gguf_metadata(const GgufSource& source) {
  constexpr std::int64_t kQuantizationVersion = 2;  // of ggml's blocks
  GgufKeys keys;
  keys.add_text("general.architecture", source.gguf.architecture);
  keys.add_text("general.type", "model");
  keys.add_text("general.name", source.name);
  keys.add_count("general.file_type", file_type(source.type));
  keys.add_count("general.quantization_version", kQuantizationVersion);
  keys.append(source.gguf.keys);
  const std::string folder = (source.folder / "").string();
  const std::int64_t vocabulary = source.model.vocab_size;
  if (Tokenizer::file_in(folder)) {
    add_tokenizer(folder, vocabulary, keys);
  } else if (vocabulary == ByteTokenizer::kVocabulary) {
    keys.append(gguf_byte_tokenizer());
  } else {
    keys.add_text("tokenizer.ggml.model", "none");
    log::warn(
        "the model has no tokenizer: llama.cpp computes it, but reads and writes ids alone; train "
        "with data.tokenizer, or put the tokenizer's files into an exported folder and export "
        "that");
  }
  return keys;
}

}  // namespace strata
