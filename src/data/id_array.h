// Reads ids that lie one behind another in a file. Readers of strata's files and of those of other
// programs share it; both functions may be called by several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "strata/base/file.h"
#include "strata/data/token_file.h"

namespace strata {

/// Reads out.size() ids from byte `offset` of a file on. Throws IoError if the file ends before.
void read_ids(const InputFile& file, std::size_t offset, TokenType type,
              std::span<std::int32_t> out);

/// Appends to `ends` what document_ends_in() is to, for a source in which `end_of_document` ends
/// documents: it reads the ids in question.
void append_ends_by_id(const TokenSource& source, std::int32_t end_of_document, std::int64_t begin,
                       std::int64_t end, std::vector<std::int64_t>& ends);

}  // namespace strata
