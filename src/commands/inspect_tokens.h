// `inspect` of token files: what they hold in all, or one document of them.
#pragma once

#include <string>
#include <vector>

#include "strata/commands/commands.h"

namespace strata {

/// Prints what `files` hold, which are read one behind another, or the document that the options
/// name. Throws IoError that names a file that is missing or damaged, and ConfigError for a
/// document that is not there and a tokenizer that the files are not from.
void inspect_tokens(const std::vector<std::string>& files, const InspectOptions& options);

}  // namespace strata
