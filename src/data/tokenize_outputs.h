// The rules that keep `strata tokenize` from replacing what it should not.
#pragma once

#include <vector>

#include "data/text_files.h"
#include "strata/data/tokenize.h"

namespace strata {

/// Throws ConfigError if an output is one of the inputs (by whatever name) or would be one the next
/// time, if both outputs are one file, or if there is a file that is not a token file and
/// options.overwrite does not allow to replace it; IoError if there is something other than a file.
void check_outputs(const TokenizeOptions& options, const std::vector<TextFile>& files);

}  // namespace strata
