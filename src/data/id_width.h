// Tells by a sample whether the ids of a headerless file have the width that the config says. Read
// in another width a file still gives ids, which a model would learn without complaint.
#pragma once

#include "strata/data/token_file.h"

namespace strata {

/// Throws IoError, with the value that data.dtype should have, if ids look as if they were wider
/// (every second one is next to nothing) or narrower (many are above all vocabularies) than `type`.
/// Files of less than 64 ids are not judged.
void require_width(const TokenSource& tokens, TokenType type);

}  // namespace strata
