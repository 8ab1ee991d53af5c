// Reads and writes the loss bits of token files. Bits are unpacked, and packed, in pieces that fit
// on the stack.

#include "data/loss_bits.h"

#include <algorithm>
#include <array>
#include <string>

#include "data/token_file_format.h"
#include "strata/base/error.h"

namespace strata {

namespace {
constexpr std::size_t kPieceBytes = 4096;  ///< bytes
}

LossBits::LossBits(const InputFile& file, std::size_t offset, std::uint64_t tokens)
    : offset_(offset) {
  std::array<std::uint8_t, token_file::kEndBytes> last{};
  const std::size_t bytes = token_file::loss_bytes(tokens);
  if (bytes == 0) return;
  file.read(offset + bytes - last.size(), std::as_writable_bytes(std::span(last)));
  const std::uint64_t first_bit = 8 * (bytes - last.size());
  for (std::uint64_t bit = tokens - first_bit; bit < 8 * last.size(); ++bit) {
    if ((last.at(bit / 8) >> (bit % 8) & 1) == 0) continue;
    throw IoError(file.path().string() + ": is damaged: loss bit " +
                  std::to_string(first_bit + bit) + " is set, but it has " +
                  std::to_string(tokens) + " tokens. Copy or make it again");
  }
}

void LossBits::read(const InputFile& file, std::int64_t begin, std::span<std::uint8_t> out) const {
  std::array<std::uint8_t, kPieceBytes> buffer;
  auto bit = static_cast<std::uint64_t>(begin);
  while (!out.empty()) {
    const std::uint64_t first_bit = bit / 8 * 8;
    const std::size_t count = std::min(out.size(), 8 * buffer.size() - (bit - first_bit));
    const auto bytes = std::span(buffer).first((bit - first_bit + count + 7) / 8);
    file.read(offset_ + first_bit / 8, std::as_writable_bytes(bytes));
    for (std::uint8_t& loss : out.first(count)) {
      loss = bytes[(bit - first_bit) / 8] >> (bit % 8) & 1;
      ++bit;
    }
    out = out.subspan(count);
  }
}

void LossRuns::add(std::span<const std::uint8_t> loss) {
  for (std::size_t begin = 0; begin < loss.size();) {
    const bool counts = loss[begin] != 0;
    std::size_t end = begin;
    while (end < loss.size() && (loss[end] != 0) == counts) ++end;
    add_run(counts, end - begin);
    begin = end;
  }
}

void LossRuns::add_run(bool counts, std::uint64_t tokens) {
  const bool counted = changes_.size() % 2 == 0;
  if (tokens > 0 && counts != counted) changes_.push_back(tokens_);
  tokens_ += tokens;
}

void LossRuns::write(OutputFile& out) const {
  std::array<std::uint8_t, kPieceBytes> buffer{};
  const std::uint64_t bits = 8 * token_file::loss_bytes(tokens_);
  std::size_t next_change = 0;
  for (std::uint64_t first = 0; first < bits; first += 8 * buffer.size()) {
    const std::uint64_t end = std::min<std::uint64_t>(bits, first + 8 * buffer.size());
    buffer.fill(0);
    for (std::uint64_t bit = first; bit < std::min(end, tokens_); ++bit) {
      while (next_change < changes_.size() && changes_[next_change] <= bit) ++next_change;
      const bool counts = next_change % 2 == 0;
      if (counts) buffer[(bit - first) / 8] |= static_cast<std::uint8_t>(1U << (bit % 8));
    }
    out.write(buffer.data(), (end - first) / 8);
  }
}

}  // namespace strata
