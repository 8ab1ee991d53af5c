// The list of document ends at the end of a token file. TokenFile owns one and asks it where
// documents end in a row; only the damaged list of a file can make it throw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "strata/base/file.h"

namespace strata {

/// Ascending ends of documents, of which the file holds all and memory one in 512. Several threads
/// may ask at once.
class DocumentEnds {
 public:
  /// Where the list is: `count` entries from byte `offset` of the file on.
  struct Place {
    std::size_t offset = 0;
    std::size_t count = 0;
  };
  DocumentEnds() = default;
  /// Reads the whole list once. Throws IoError unless the ends are above 0, ascend, and the last
  /// one is `tokens`. `file` is needed later too, and not kept.
  DocumentEnds(const InputFile& file, const Place& place, std::uint64_t tokens);

  [[nodiscard]] std::size_t count() const { return place_.count; }
  /// Appends to `ends`, ascending, every end in (begin, end]. Throws IoError if the file is not any
  /// more what it was.
  void append_in(const InputFile& file, std::int64_t begin, std::int64_t end,
                 std::vector<std::int64_t>& ends) const;

 private:
  Place place_;
  std::vector<std::uint64_t> block_lasts_;  ///< the last end of each block of 512
};

}  // namespace strata
