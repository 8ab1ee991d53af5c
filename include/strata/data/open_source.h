// Opens files of token ids of every kind that is read: strata's, those of llm.c and Megatron, and
// bare ids. Sessions open their data here, so no other code knows the kinds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/data/token_file.h"
#include "strata/data/token_source.h"

namespace strata {

/// What files of other programs may leave open.
struct ForeignFormat {
  std::optional<TokenType> type{};                ///< of files without header; absent: refuse those
  std::optional<std::int32_t> end_of_document{};  ///< of files that do not list their documents
  std::optional<bool> document_begins{};          ///< with that id; absent: llm.c's do
};

/// Opens a file by what it begins with: a token file of strata, one of llm.c, the index (.idx) of a
/// Megatron dataset, whose ids are in the .bin file beside it, or bare ids. `foreign` says what the
/// file does not. Throws IoError that names the file for what TokenFile::open refuses, and for what
/// is torn or contradicts itself.
[[nodiscard]] std::unique_ptr<TokenSource> open_token_source(const std::string& file,
                                                             const ForeignFormat& foreign = {});

/// Returns the names of all files that open_token_source(file) reads, which need not be there.
[[nodiscard]] std::vector<std::string> files_of_token_source(const std::string& file);

}  // namespace strata
