// The token files that `strata tokenize` writes: the training set and, if a share of the documents
// goes to it, the validation set.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "data/token_shards.h"
#include "strata/data/token_file.h"
#include "strata/data/tokenize.h"

namespace strata {

class TokenFileSets {
 public:
  /// `options` outlive it. Throws as TokenFileWriter's constructor.
  TokenFileSets(const TokenizeOptions& options, const TokenFileWriter::Format& format);

  /// Returns where a document of so many tokens goes, by the hash of its text.
  [[nodiscard]] TokenFileWriter& writer_for(std::uint64_t hash, std::int64_t tokens);
  /// Adds a whole document, or a pair of them, by the hash of its text. Throws IoError for a pair
  /// among other documents.
  void add(const EncodedDocument& document, std::uint64_t hash);
  /// Publishes both files and says what they hold. Throws IoError if one would be empty.
  void finish(TokenizeStatistics& statistics);

 private:
  const TokenizeOptions& options_;
  std::optional<bool> pairs_;  ///< whether documents are pairs, once there is one
  std::unique_ptr<TokenShards> training_;
  std::unique_ptr<TokenShards> validation_;
};

}  // namespace strata
