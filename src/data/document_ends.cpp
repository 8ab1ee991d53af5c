// Reads document ends in blocks of 4 KiB. The first reading checks all of them and remembers the
// last end of each block, so that a later question reads the blocks that it needs.

#include "data/document_ends.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "data/token_file_format.h"
#include "strata/base/error.h"
#include "strata/base/file.h"

namespace strata {

namespace {

constexpr std::size_t kBlock = 512;
using Block = std::array<std::uint64_t, kBlock>;

std::span<const std::uint64_t> read_block(const InputFile& file, const DocumentEnds::Place& place,
                                          std::size_t block, Block& buffer) {
  const std::size_t first = block * kBlock;
  const auto entries = std::span(buffer).first(std::min(kBlock, place.count - first));
  file.read(place.offset + first * token_file::kEndBytes, std::as_writable_bytes(entries));
  return entries;
}

void require_ascending(const InputFile& file, std::uint64_t last, std::uint64_t next) {
  if (next > last) return;
  throw IoError(file.path().string() + ": is damaged: its document ends do not ascend, " +
                std::to_string(next) + " comes after " + std::to_string(last) +
                ". Copy or tokenize it again");
}

}  // namespace

DocumentEnds::DocumentEnds(const InputFile& file, const Place& place, std::uint64_t tokens)
    : place_(place) {
  Block buffer;
  std::uint64_t last = 0;
  for (std::size_t block = 0; block * kBlock < place.count; ++block) {
    for (const std::uint64_t end : read_block(file, place, block, buffer)) {
      require_ascending(file, last, end);
      last = end;
    }
    block_lasts_.push_back(last);
  }
  if (last != tokens) {
    throw IoError(file.path().string() + ": is damaged: its last document ends at token " +
                  std::to_string(last) + ", it has " + std::to_string(tokens) +
                  ". Copy or tokenize it again");
  }
}

void DocumentEnds::append_in(const InputFile& file, std::int64_t begin, std::int64_t end,
                             std::vector<std::int64_t>& ends) const {
  Block buffer;
  auto last = static_cast<std::uint64_t>(begin);
  const auto first = std::upper_bound(block_lasts_.begin(), block_lasts_.end(), last);
  for (auto block = static_cast<std::size_t>(first - block_lasts_.begin());
       block < block_lasts_.size(); ++block) {
    for (const std::uint64_t at : read_block(file, place_, block, buffer)) {
      if (at <= static_cast<std::uint64_t>(begin)) continue;
      if (at > static_cast<std::uint64_t>(end)) return;
      require_ascending(file, last, at);  // the file may have changed since it was checked
      ends.push_back(static_cast<std::int64_t>(at));
      last = at;
    }
  }
}

}  // namespace strata
