// The token files that `strata tokenize` writes: the training set and, if a share of the documents
// goes to it, the validation set.
#pragma once

#include <cstdint>
#include <memory>

#include "strata/data/token_file.h"
#include "strata/data/tokenize.h"

namespace strata {

class TokenFileSets {
 public:
  /// `options` outlive it. Throws as TokenFileWriter's constructor.
  TokenFileSets(const TokenizeOptions& options, const TokenFileWriter::Format& format);

  /// Returns the set of a document by the hash of its text.
  [[nodiscard]] TokenFileWriter& set_of(std::uint64_t hash);
  /// Adds a whole document, by the hash of its text.
  void add(const EncodedDocument& document, std::uint64_t hash);
  /// Publishes both files and says what they hold. Throws IoError if one would be empty.
  void finish(TokenizeStatistics& statistics);

 private:
  const TokenizeOptions& options_;
  std::unique_ptr<TokenFileWriter> training_;
  std::unique_ptr<TokenFileWriter> validation_;
};

}  // namespace strata
