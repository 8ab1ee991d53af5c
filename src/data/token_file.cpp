// Reads token files. Opening checks the header against the size of the file, so that later reads
// cannot run off the mapping; ids themselves are checked by the batch loader, which knows the
// model.

#include "strata/data/token_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "data/mapped_file.h"
#include "data/token_file_format.h"
#include "strata/base/error.h"

namespace strata {

using token_file::Header;

TokenType parse_token_type(std::string_view text) {
  if (text == "u16") return TokenType::kU16;
  if (text == "u32") return TokenType::kU32;
  throw ConfigError("a token type is \"u16\" or \"u32\", not \"" + std::string(text) + "\"");
}

TokenFile::TokenFile(std::string name, std::unique_ptr<MappedFile> mapping)
    : name_(std::move(name)), mapping_(std::move(mapping)) {}

TokenFile::~TokenFile() = default;

std::unique_ptr<TokenFile> TokenFile::open(const std::string& file,
                                           const std::optional<RawTokenFormat>& raw) {
  std::unique_ptr<TokenFile> result(new TokenFile(file, std::make_unique<MappedFile>(file)));
  const MappedFile& mapping = *result->mapping_;
  const auto& magic = token_file::kMagic;
  if (mapping.bytes() >= magic.size() &&
      std::memcmp(mapping.data(), magic.data(), magic.size()) == 0) {
    result->read_header();
  } else if (raw) {
    result->read_raw(*raw);
  } else {
    throw IoError(file + ": does not begin like a token file of strata. Make one with `strata " +
                  "tokenize`, or set data.dtype to u16 or u32 if it holds nothing but token ids");
  }
  return result;
}

void TokenFile::read_header() {
  const std::size_t found = mapping_->bytes();
  const auto require_bytes = [&](std::size_t expected) {
    if (found == expected) return;
    throw IoError(name_ + ": is torn: its header tells of " + std::to_string(expected) +
                  " bytes, it has " + std::to_string(found) + ". Copy or tokenize it again");
  };
  if (found < sizeof(Header)) {
    throw IoError(name_ + ": is torn: a header takes " + std::to_string(sizeof(Header)) +
                  " bytes, it has " + std::to_string(found) + ". Copy or tokenize it again");
  }
  Header header;
  std::memcpy(&header, mapping_->data(), sizeof header);
  if (header.version != token_file::kVersion) {
    throw IoError(name_ + ": has version " + std::to_string(header.version) +
                  " of the token file format; this program reads version " +
                  std::to_string(token_file::kVersion) + ". Tokenize it again");
  }
  if (header.bytes_per_token != 2 && header.bytes_per_token != 4) {
    throw IoError(name_ + ": its header says " + std::to_string(header.bytes_per_token) +
                  " bytes per token; only 2 and 4 exist");
  }
  // Counts above the file's bytes are torn anyway, and below them no product can overflow.
  if (header.tokens > found || header.documents > found) {
    throw IoError(name_ + ": is torn: its header tells of " + std::to_string(header.tokens) +
                  " tokens and " + std::to_string(header.documents) + " documents, it has " +
                  std::to_string(found) + " bytes. Copy or tokenize it again");
  }
  const std::size_t ends = token_file::ends_offset(header.tokens, header.bytes_per_token);
  require_bytes(ends + header.documents * token_file::kEndBytes);

  has_header_ = true;
  type_ = header.bytes_per_token == 2 ? TokenType::kU16 : TokenType::kU32;
  size_ = static_cast<std::int64_t>(header.tokens);
  vocabulary_ = static_cast<std::int64_t>(header.vocabulary);
  tokenizer_hash_ = header.tokenizer_hash;
  tokens_ = mapping_->data() + sizeof(Header);
  // The ends are aligned: the mapping begins with a page, and ends_offset() is a multiple of 8.
  document_ends_ = {reinterpret_cast<const std::uint64_t*>(mapping_->data() + ends),
                    static_cast<std::size_t>(header.documents)};
  if (!document_ends_.empty() && document_ends_.back() != header.tokens) {
    throw IoError(name_ + ": is damaged: its last document ends at token " +
                  std::to_string(document_ends_.back()) + ", it has " +
                  std::to_string(header.tokens) + ". Copy or tokenize it again");
  }
}

void TokenFile::read_raw(const RawTokenFormat& raw) {
  const std::size_t token_bytes = size_of(raw.type);
  if (mapping_->bytes() % token_bytes != 0) {
    throw IoError(name_ + ": has " + std::to_string(mapping_->bytes()) +
                  " bytes, not a multiple of the " + std::to_string(token_bytes) +
                  " that data.dtype gives a token");
  }
  type_ = raw.type;
  end_of_document_ = raw.end_of_document;
  size_ = static_cast<std::int64_t>(mapping_->bytes() / token_bytes);
  tokens_ = mapping_->data();
}

std::optional<std::int64_t> TokenFile::documents() const {
  if (!has_header_) return std::nullopt;
  return static_cast<std::int64_t>(document_ends_.size());
}

void TokenFile::read(std::int64_t begin, std::span<std::int32_t> out) const {
  check_range(*this, begin, static_cast<std::int64_t>(out.size()));
  if (out.empty()) return;
  const std::byte* from = tokens_ + static_cast<std::size_t>(begin) * size_of(type_);
  if (type_ == TokenType::kU32) {
    std::memcpy(out.data(), from, out.size_bytes());
  } else {
    const auto* ids = reinterpret_cast<const std::uint16_t*>(from);
    std::copy_n(ids, out.size(), out.begin());
  }
}

void TokenFile::document_ends_in(std::int64_t begin, std::int64_t end,
                                 std::vector<std::int64_t>& ends) const {
  check_range(*this, begin, end - begin);
  if (has_header_) {
    auto it = std::upper_bound(document_ends_.begin(), document_ends_.end(),
                               static_cast<std::uint64_t>(begin));
    // What callers do with ends relies on their order, which nobody checked in a damaged file.
    for (std::uint64_t last = static_cast<std::uint64_t>(begin);
         it != document_ends_.end() && *it <= static_cast<std::uint64_t>(end); last = *it++) {
      if (*it <= last) {
        throw IoError(name_ + ": is damaged: its document ends do not ascend, " +
                      std::to_string(*it) + " comes after " + std::to_string(last) +
                      ". Copy or tokenize it again");
      }
      ends.push_back(static_cast<std::int64_t>(*it));
    }
    return;
  }
  if (!end_of_document_) return;
  const auto append_ends = [&]<class Id>(const Id* ids) {
    const auto wanted = static_cast<std::uint32_t>(*end_of_document_);
    for (std::int64_t i = begin; i < end; ++i) {
      if (ids[i] == wanted) ends.push_back(i + 1);
    }
  };
  if (type_ == TokenType::kU16) {
    append_ends(reinterpret_cast<const std::uint16_t*>(tokens_));
  } else {
    append_ends(reinterpret_cast<const std::uint32_t*>(tokens_));
  }
}

}  // namespace strata
