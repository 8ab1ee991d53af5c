// A part of the inputs of `strata tokenize` that one thread turns into ids: a file, a text that
// came unpacked or from standard input, or lines with a record each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/document_encoder.h"
#include "data/file_kind.h"
#include "data/foreign_record.h"
#include "data/open_input.h"
#include "data/text_files.h"
#include "strata/data/tokenize.h"
#include "strata/tokenizer/encode_cache.h"

namespace strata {

/// The most that a document may have, in bytes.
inline constexpr std::size_t kMostDocumentBytes = std::size_t{1} << 30;

struct EncodeBatch {
  /// A document that was made.
  struct Document {
    std::size_t end = 0;     ///< of its ids
    std::uint64_t hash = 0;  ///< of its text
    std::int64_t line = 0;   ///< of a record
    std::size_t chosen = 0;  ///< ids of a pair's chosen answer, which come first; 0: it is no pair
  };

  const TextFile* file = nullptr;  ///< the input
  /// What was read of it; absent: the work begins with reading the file.
  std::optional<std::string> text{};
  std::int64_t first_line = 0;          ///< of lines with records; 0: the text is one document
  RecordUnit unit = RecordUnit::kLine;  ///< what records are in their file
  std::size_t input_bytes = 0;          ///< what it counts for in the progress
  bool is_last = true;                  ///< nothing of the input comes after it

  std::vector<std::int32_t> ids{};   ///< of all documents
  std::vector<std::uint8_t> loss{};  ///< for each id, if there are conversations
  std::vector<Document> documents{};
  std::int64_t empty_documents = 0;
  std::int64_t conversations = 0;
  std::vector<std::int64_t> without_loss{};  ///< lines of conversations that were left out for it
  std::vector<std::string> bad_records{};    ///< why; one more than may be left out at most
  std::vector<RecordKind> kinds{};           ///< of the conversations, each once
  std::optional<FileKind> not_text{};        ///< nothing was made of it
};

/// Does the work. Throws IoError, which names the file, and for a record its line.
void encode_batch(EncodeBatch& batch, const TokenizeOptions& options,
                  const DocumentEncoder& encoder, EncodeCache& cache);

}  // namespace strata
