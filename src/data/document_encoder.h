// Turns the documents of `strata tokenize` into ids: by bytes, or by the tokenizer of a model. One
// is made for a call of tokenize().
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "strata/data/conversation_encoder.h"
#include "strata/data/token_file.h"
#include "strata/data/tokenize.h"
#include "strata/tokenizer/encode_cache.h"

namespace strata {

class DocumentEncoder {
 public:
  virtual ~DocumentEncoder() = default;
  /// Returns what token files of this encoder say of their ids.
  [[nodiscard]] virtual TokenFileWriter::Format format() const = 0;
  /// Appends the ids of a text in UTF-8, which is one document, special tokens at its ends
  /// included. Several threads may call it, each with a cache of its own.
  virtual void encode(std::string_view text, EncodeCache& cache,
                      std::vector<std::int32_t>& ids) const = 0;
  /// Returns what the chat template makes of the conversation that a record holds. Several threads
  /// may call it, each with a cache of its own. Throws IoError, without file and line, for what is
  /// no conversation, is refused by the template, or if there is no template.
  [[nodiscard]] virtual EncodedConversation encode_conversation(std::string_view record,
                                                                EncodeCache& cache) const = 0;
  /// Returns the tokenizer of a model, or null.
  [[nodiscard]] virtual const Tokenizer* tokenizer() const = 0;
};

/// Returns the encoder that the options ask for. Throws as Tokenizer::load does, and ConfigError
/// for a special token that the tokenizer does not name, or options that only a tokenizer has.
[[nodiscard]] std::unique_ptr<DocumentEncoder> make_document_encoder(
    const TokenizeOptions& options);

}  // namespace strata
