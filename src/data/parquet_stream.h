// The rows of a Parquet file as lines of JSON, so that they are read, refused and left out as any
// other records are. Inputs that are tables are opened here.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/byte_stream.h"
#include "data/record_reader.h"

namespace strata {

/// Returns whether a file, by its first bytes, is a Parquet table.
[[nodiscard]] bool is_parquet(std::string_view beginning);

/// Returns whether the library that reads Parquet lies beside this program, or in lib/strata beside
/// its folder.
[[nodiscard]] bool reads_parquet();

/// Gives each row of a file on a line of its own, in their order, with the columns that records by
/// `rules` are made of. Some MiB of rows are in memory at a time. Throws IoError that names the
/// file if the library or its Arrow cannot be loaded, the file is no whole table, or it lacks the
/// columns that a record must have; so does reading it.
[[nodiscard]] std::unique_ptr<ByteStream> lines_of_parquet(const std::string& file,
                                                           const RecordRules& rules);

}  // namespace strata
