// Whether this strata reads Parquet, which a library of its own beside the program does
// (docs/decisions/0045): `strata --version` prints it.
#pragma once

#include <string>

namespace strata {

/// Returns "Arrow 26.0.1", the version that reads Parquet; "none" if the program has no library for
/// it, and with the reason if that cannot be loaded. Loads the library.
[[nodiscard]] std::string parquet_support();

}  // namespace strata
