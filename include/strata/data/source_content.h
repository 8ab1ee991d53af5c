// What is in a token source, whatever its files are called and wherever they lie. A run keeps it
// with its checkpoints, so that it notices when it is started again on other data.
#pragma once

#include <cstdint>
#include <optional>

#include "strata/data/token_source.h"

namespace strata {

/// A source by its content.
struct SourceContent {
  std::int64_t tokens = 0;
  std::optional<std::int64_t> documents{};  ///< absent where files do not list them
  std::uint64_t tokenizer_hash = 0;         ///< 0 where the source does not know
  /// A hash of ids, loss bits and ends of documents in 64 places that are spread evenly, of 4,096
  /// tokens each, or of all of a source that has no more. It is kept in checkpoints, so it must
  /// never change.
  std::uint64_t digest = 0;
  bool operator==(const SourceContent&) const = default;
};

/// Reads the samples of a source: at most 262,144 tokens. Throws IoError as the source does.
[[nodiscard]] SourceContent content_of(const TokenSource& source);

}  // namespace strata
