// Reads Megatron's indexed datasets. The ends of a row's documents are searched in the index
// itself, by halves: some 60 short reads for a hundred million documents, from pages that soon are
// in memory.

#include "data/megatron_file.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "data/id_array.h"
#include "strata/base/error.h"

namespace strata {

namespace {

using namespace std::string_view_literals;

constexpr std::string_view kIndexMagic = "MMIDIDX\0\0"sv;
constexpr std::uint64_t kVersion = 1;
constexpr std::uint64_t kIndexHeaderBytes = kIndexMagic.size() + 8 + 1 + 8 + 8;
constexpr std::uint64_t kSequenceBytes = 4 + 8;  ///< its length and its pointer
constexpr std::uint8_t kCodeI32 = 4;
constexpr std::uint8_t kCodeU16 = 8;
constexpr std::size_t kPieceNumbers = 4096;  ///< numbers that are on the stack at once

/// Calls `take` with each of `count` numbers from byte `offset` on.
template <class T, class Take>
void for_each_number(const InputFile& file, std::uint64_t offset, std::uint64_t count,
                     const Take& take) {
  std::array<T, kPieceNumbers> buffer;
  while (count > 0) {
    const auto numbers = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), count));
    file.read(offset, std::as_writable_bytes(numbers));
    for (const T number : numbers) take(number);
    offset += numbers.size_bytes();
    count -= numbers.size();
  }
}

std::uint64_t lengths_offset() { return kIndexHeaderBytes; }
std::uint64_t pointers_offset(std::uint64_t sequences) { return kIndexHeaderBytes + 4 * sequences; }
std::uint64_t documents_offset(std::uint64_t sequences) {
  return kIndexHeaderBytes + kSequenceBytes * sequences;
}

}  // namespace

bool MegatronFile::is(std::string_view beginning) { return beginning.starts_with(kIndexMagic); }

std::string MegatronFile::ids_of(const std::string& index) {
  if (!index.ends_with(kIndexEnding)) {
    throw IoError(index + ": is the index of a Megatron dataset; its name must end with .idx, so " +
                  "that the .bin file beside it is found");
  }
  return index.substr(0, index.size() - kIndexEnding.size()) + ".bin";
}

MegatronFile::MegatronFile(const std::string& index)
    : name_(index), index_(index), ids_(ids_of(index)) {
  read_header();
  size_ = static_cast<std::int64_t>(ids_.bytes() / size_of(type_));
  check_sequences();
  check_documents();
}

void MegatronFile::refuse(const std::string& what) const {
  throw IoError(name_ + ": is the index of a Megatron dataset, and " + what +
                ". Copy or make it again, with its .bin file");
}

void MegatronFile::read_header() {
  const std::uint64_t found = index_.bytes();
  std::array<std::byte, kIndexHeaderBytes> header{};
  if (found < header.size()) {
    refuse("torn: its header takes " + std::to_string(header.size()) + " bytes, it has " +
           std::to_string(found));
  }
  index_.read(0, header);
  const auto number = [&](std::size_t offset) {
    std::uint64_t value = 0;
    std::memcpy(&value, header.data() + offset, sizeof value);
    return value;
  };
  constexpr std::size_t kCodeAt = kIndexMagic.size() + 8;
  if (const std::uint64_t version = number(kIndexMagic.size()); version != kVersion) {
    refuse("has version " + std::to_string(version) + " of its format; only 1 is known here");
  }
  const auto code = std::to_integer<std::uint8_t>(header[kCodeAt]);
  if (code != kCodeI32 && code != kCodeU16) {
    refuse("says that ids have the type of code " + std::to_string(code) +
           "; only 4 (int32) and 8 (uint16) are read");
  }
  type_ = code == kCodeU16 ? TokenType::kU16 : TokenType::kU32;
  sequences_ = number(kCodeAt + 1);
  documents_ = number(kCodeAt + 9);
  // Files with holes may be so long that products of what their headers say overflow.
  const bool countable =
      sequences_ <= found / kSequenceBytes && documents_ <= found / sizeof(std::int64_t);
  const std::uint64_t expected =
      countable ? documents_offset(sequences_) + sizeof(std::int64_t) * documents_ : 0;
  if (found != expected) {
    refuse("torn, or of a kind that is not read: " + std::to_string(sequences_) +
           " sequences and " + std::to_string(documents_) + " entries of documents do not take " +
           std::to_string(found) + " bytes");
  }
}

void MegatronFile::check_sequences() const {
  const std::uint64_t width = size_of(type_);
  std::uint64_t sequence = 0;
  std::uint64_t begin = 0;
  std::array<std::int64_t, kPieceNumbers> pointers{};
  for_each_number<std::int32_t>(index_, lengths_offset(), sequences_, [&](std::int32_t length) {
    if (sequence % kPieceNumbers == 0) {
      const auto piece =
          std::span(pointers).first(std::min<std::uint64_t>(kPieceNumbers, sequences_ - sequence));
      index_.read(pointers_offset(sequences_) + sizeof(std::int64_t) * sequence,
                  std::as_writable_bytes(piece));
    }
    const auto pointer = static_cast<std::uint64_t>(pointers[sequence % kPieceNumbers]);
    if (length < 0 || pointer != begin) {
      refuse("damaged: sequence " + std::to_string(sequence) + " has " + std::to_string(length) +
             " ids from byte " + std::to_string(pointer) + " on, but those before it end at " +
             std::to_string(begin));
    }
    begin += static_cast<std::uint64_t>(length) * width;
    ++sequence;
  });
  if (begin != ids_.bytes()) {
    refuse("tells of " + std::to_string(begin) + " bytes of ids, but " + ids_.path().string() +
           " has " + std::to_string(ids_.bytes()));
  }
}

void MegatronFile::check_documents() const {
  std::uint64_t last = 0;
  std::uint64_t document = 0;
  for_each_number<std::int64_t>(
      index_, documents_offset(sequences_), documents_, [&](std::int64_t number) {
        const auto sequence = static_cast<std::uint64_t>(number);
        if (sequence < last || sequence > sequences_ || (document == 0 && sequence != 0)) {
          refuse("damaged: document " + std::to_string(document) + " begins with sequence " +
                 std::to_string(number) + " of " + std::to_string(sequences_) +
                 ", the one before it with " + std::to_string(last));
        }
        last = sequence;
        ++document;
      });
  if (last != sequences_) {
    refuse("damaged: its last document ends with sequence " + std::to_string(last) + " of " +
           std::to_string(sequences_));
  }
}

std::int64_t MegatronFile::number_at(std::uint64_t offset) const {
  std::int64_t number = 0;
  index_.read(offset, std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

/// Returns the first token of a document, or where the last one ends.
std::int64_t MegatronFile::document_begin(std::uint64_t document) const {
  const auto sequence = static_cast<std::uint64_t>(
      number_at(documents_offset(sequences_) + sizeof(std::int64_t) * document));
  if (sequence >= sequences_) return size_;
  return number_at(pointers_offset(sequences_) + sizeof(std::int64_t) * sequence) /
         static_cast<std::int64_t>(size_of(type_));
}

TokenStorage MegatronFile::storage() const {
  return {.kind = "Megatron",
          .version = static_cast<std::int64_t>(kVersion),
          .id_bytes = size_of(type_),
          .tells_documents = true,
          .documents = static_cast<std::int64_t>(std::max<std::uint64_t>(documents_, 1) - 1)};
}

void MegatronFile::read(std::int64_t begin, std::span<std::int32_t> out) const {
  check_range(*this, begin, static_cast<std::int64_t>(out.size()));
  read_ids(ids_, static_cast<std::size_t>(begin) * size_of(type_), type_, out);
}

void MegatronFile::document_ends_in(std::int64_t begin, std::int64_t end,
                                    std::vector<std::int64_t>& ends) const {
  check_range(*this, begin, end - begin);
  std::uint64_t first = 0;  // of the documents that begin after `begin`
  for (std::uint64_t left = documents_; left > 0;) {
    const std::uint64_t half = left / 2;
    if (document_begin(first + half) <= begin) {
      first += half + 1;
      left -= half + 1;
    } else {
      left = half;
    }
  }
  std::int64_t last = begin;
  for (; first < documents_ && last < end; ++first) {
    const std::int64_t at = document_begin(first);
    if (at > end) return;
    if (at > last) ends.push_back(at);  // a document may be empty
    last = std::max(last, at);
  }
}

}  // namespace strata
