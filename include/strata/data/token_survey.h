// What a token source holds as a whole, and where its documents are. `strata inspect` asks; both
// functions read the source from its beginning, in pieces of some MiB.
#pragma once

#include <cstdint>

#include "strata/data/token_source.h"

namespace strata {

/// Counts over all tokens of a source.
struct TokenSurvey {
  std::int64_t tokens = 0;
  std::int64_t loss_tokens = 0;   ///< those whose loss counts
  std::int64_t smallest_id = -1;  ///< -1 without tokens
  std::int64_t largest_id = -1;   ///< -1 without tokens; up to 2^32 - 1, since ids are not checked
  std::int64_t documents = 0;     ///< what stands behind the last end is one, too
  std::int64_t shortest = 0;      ///< tokens of a document
  std::int64_t median = 0;        ///< of an even count the shorter one of the two in the middle
  std::int64_t longest = 0;
};

/// Reads all of a source once; its documents take 8 bytes each meanwhile. A source that knows no
/// documents is one document. Throws IoError as the source does.
[[nodiscard]] TokenSurvey survey_tokens(const TokenSource& source);

/// Tokens [begin, end) of a source.
struct TokenRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Returns where a document is, by its number from 1 on. Throws ConfigError that names the source
/// and its documents if there is none of the number; IoError as the source does.
[[nodiscard]] TokenRange find_document(const TokenSource& source, std::int64_t number);

}  // namespace strata
