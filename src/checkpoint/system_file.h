// A file of this machine that is open to be written or read, as Files gives it out.
#pragma once

#include <filesystem>
#include <memory>

#include "checkpoint/system_calls.h"
#include "checkpoint/write_behind.h"
#include "strata/checkpoint/files.h"

namespace strata {

/// Returns whether a system or file system says that it does not have what was asked for, rather
/// than that it failed.
[[nodiscard]] bool is_refusal(int error);

/// Each takes over a descriptor of `file`, opened to write or to read, and throws DamagedFile, or
/// IoError, and closes it if it is no regular file. `calls` and `behind` outlive what is returned.
[[nodiscard]] std::unique_ptr<FileWriter> open_system_writer(const SystemCalls& calls,
                                                             WriteBehind& behind,
                                                             const std::filesystem::path& file,
                                                             int descriptor);
[[nodiscard]] std::unique_ptr<FileReader> open_system_reader(const SystemCalls& calls,
                                                             const std::filesystem::path& file,
                                                             int descriptor);

}  // namespace strata
