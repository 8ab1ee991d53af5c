// Says what failed in a file operation, in one place for all implementations of Files: path,
// operation, the system's reason, and the remedy where there is one.
#pragma once

#include <filesystem>
#include <string_view>

namespace strata {

/// Throws IoError "path: operation: reason; remedy" for an error number of the system.
[[noreturn]] void throw_io_failure(const std::filesystem::path& path, std::string_view operation,
                                   int error);

}  // namespace strata
