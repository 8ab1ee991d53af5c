// Declares the rules that every manifest fulfils, whoever wrote it, and the refusal of one that
// does not.

#pragma once

#include <string>

#include "strata/checkpoint/manifest.h"

namespace strata {

/// Throws IoError "<field>: <problem>", without a file's name, which the caller adds.
[[noreturn]] void refuse_manifest(const std::string& field, const std::string& problem);

/// Throws IoError as refuse_manifest does if numbers, paths or slices contradict each other.
void check_manifest(const Manifest& manifest);

}  // namespace strata
