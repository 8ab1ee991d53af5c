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

/// The id that stands between the documents of a source.
struct Separator {
  std::int32_t id = 0;
  bool begins = false;  ///< a document begins with it; else it is the last token of one
};

/// Appends to `ends` what document_ends_in() is to, for a source whose documents a separator tells:
/// it reads the ids in question. Where it begins them, the last one ends with the source.
void append_ends_by_id(const TokenSource& source, const Separator& separator, std::int64_t begin,
                       std::int64_t end, std::vector<std::int64_t>& ends);

}  // namespace strata
