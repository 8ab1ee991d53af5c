// Reads ids of a file, and finds the ends of documents among them. Narrow ids are widened in pieces
// that fit on the stack.

#include "data/id_array.h"

#include <algorithm>
#include <array>

namespace strata {

namespace {
constexpr std::size_t kPieceIds = 4096;  ///< ids that are on the stack at once
}

void read_ids(const InputFile& file, std::size_t offset, TokenType type,
              std::span<std::int32_t> out) {
  if (type == TokenType::kU32) {
    file.read(offset, std::as_writable_bytes(out));
    return;
  }
  std::array<std::uint16_t, kPieceIds> buffer;
  while (!out.empty()) {
    const auto ids = std::span(buffer).first(std::min(buffer.size(), out.size()));
    file.read(offset, std::as_writable_bytes(ids));
    std::ranges::copy(ids, out.begin());
    offset += ids.size_bytes();
    out = out.subspan(ids.size());
  }
}

void append_ends_by_id(const TokenSource& source, const Separator& separator, std::int64_t begin,
                       std::int64_t end, std::vector<std::int64_t>& ends) {
  check_range(source, begin, end - begin);
  // A document ends behind its last token, or before the first one of the next.
  const std::int64_t offset = separator.begins ? 0 : 1;
  const std::int64_t last = separator.begins ? std::min(end, source.size() - 1) : end - 1;
  std::int64_t at = separator.begins ? begin + 1 : begin;
  std::array<std::int32_t, kPieceIds> buffer;
  while (at <= last) {
    const auto count = std::min<std::int64_t>(std::ssize(buffer), last - at + 1);
    const auto ids = std::span(buffer).first(static_cast<std::size_t>(count));
    source.read(at, ids);
    for (const std::int32_t id : ids) {
      if (id == separator.id) ends.push_back(at + offset);
      ++at;
    }
  }
  if (separator.begins && begin < end && end == source.size()) ends.push_back(end);
}

}  // namespace strata
