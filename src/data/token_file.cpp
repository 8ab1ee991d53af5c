// Reads token files. Opening checks header, document ends and, of bare ids, a sample, so that what
// is not a token file is refused at the start; ids themselves are checked by the batch loader,
// which knows the model.

#include "strata/data/token_file.h"

#include "data/document_ends.h"
#include "data/file_kind.h"
#include "data/id_array.h"
#include "data/id_width.h"
#include "data/loss_bits.h"
#include "data/token_file_format.h"
#include "strata/base/error.h"
#include "strata/base/file.h"

namespace strata {

using token_file::Header;

TokenType parse_token_type(std::string_view text) {
  if (text == "u16") return TokenType::kU16;
  if (text == "u32") return TokenType::kU32;
  throw ConfigError("a token type is \"u16\" or \"u32\", not \"" + std::string(text) + "\"");
}

TokenFile::TokenFile(const std::string& name)
    : name_(name), file_(std::make_unique<InputFile>(name)) {}

TokenFile::~TokenFile() = default;

std::unique_ptr<TokenFile> TokenFile::open(const std::string& file,
                                           const std::optional<RawTokenFormat>& raw) {
  std::unique_ptr<TokenFile> result(new TokenFile(file));
  const std::string beginning = read_beginning(*result->file_);
  const std::string_view magic(token_file::kMagic.data(), token_file::kMagic.size());
  if (beginning.starts_with(magic)) {
    result->read_header();
    return result;
  }
  if (const auto kind = recognize_format(beginning)) {
    refuse_kind(*kind, result->name_);
  }
  if (looks_like_text(beginning)) {
    throw IoError(result->name_ +
                  ": is text, not token ids. Make a token file of it with `strata " + "tokenize`");
  }
  if (!raw) {
    throw IoError(
        result->name_ + ": does not begin like a token file of strata. Make one with " +
        "`strata tokenize`, or set data.dtype (--dtype of inspect) to u16 or u32 if " +
        "it holds nothing but token ids; of a Megatron dataset name the .idx file beside it");
  }
  result->read_raw(*raw);
  return result;
}

void TokenFile::read_header() {
  const std::size_t found = file_->bytes();
  const auto refuse = [&](const std::string& what) {
    throw IoError(name_ + ": is " + what + ". Copy or tokenize it again");
  };
  const auto require_bytes = [&](std::size_t expected) {
    if (found == expected) return;
    refuse("torn: its header tells of " + std::to_string(expected) + " bytes, it has " +
           std::to_string(found));
  };
  if (found < sizeof(Header)) {
    refuse("torn: a header takes " + std::to_string(sizeof(Header)) + " bytes, it has " +
           std::to_string(found));
  }
  Header header;
  file_->read(0, std::as_writable_bytes(std::span(&header, 1)));
  if (header.version < token_file::kPlainVersion || header.version > token_file::kPairsVersion) {
    throw IoError(name_ + ": has version " + std::to_string(header.version) +
                  " of the token file format; this program reads versions " +
                  std::to_string(token_file::kPlainVersion) + " to " +
                  std::to_string(token_file::kPairsVersion) + ". Tokenize it again");
  }
  has_pairs_ = header.version == token_file::kPairsVersion;
  const std::uint64_t pairs_flag = has_pairs_ ? token_file::kPairsFlag : 0;
  const bool has_loss = header.flags == (token_file::kLossFlag | pairs_flag);
  const bool knows_flags = header.version >= token_file::kFlagsVersion;
  if (!(has_loss && knows_flags) && (header.flags != 0 || has_pairs_)) {
    refuse("damaged: its header has flags " + std::to_string(header.flags) + ", which version " +
           std::to_string(header.version) + " does not know");
  }
  const bool narrow_ids = header.bytes_per_token == 2;
  if (!narrow_ids && header.bytes_per_token != 4) {
    refuse("damaged: its header says " + std::to_string(header.bytes_per_token) +
           " bytes per token; only 2 and 4 exist");
  }
  // Files with holes may be so long that products of what their headers say overflow.
  if (header.tokens > found / header.bytes_per_token ||
      header.documents > found / token_file::kEndBytes) {
    refuse("torn: its header tells of " + std::to_string(header.tokens) + " tokens and " +
           std::to_string(header.documents) + " documents, it has " + std::to_string(found) +
           " bytes");
  }
  const std::size_t ids_end = token_file::ids_end(header.tokens, header.bytes_per_token);
  const std::size_t ends = ids_end + (has_loss ? token_file::loss_bytes(header.tokens) : 0);
  require_bytes(ends + header.documents * token_file::kEndBytes);
  constexpr std::uint64_t kMostIds = std::uint64_t{1} << 31;
  if (header.vocabulary < 1 || header.vocabulary > (narrow_ids ? 65536 : kMostIds)) {
    refuse("damaged: its header says a vocabulary of " + std::to_string(header.vocabulary) +
           " ids of " + std::to_string(header.bytes_per_token) + " bytes");
  }
  if (header.zero != 0) refuse("damaged: the last bytes of its header are not 0");
  if (has_pairs_ && header.documents % 2 != 0) {
    refuse("damaged: it holds pairs, and its header tells of " + std::to_string(header.documents) +
           " documents");
  }

  type_ = narrow_ids ? TokenType::kU16 : TokenType::kU32;
  version_ = header.version;
  size_ = static_cast<std::int64_t>(header.tokens);
  vocabulary_ = static_cast<std::int64_t>(header.vocabulary);
  tokenizer_hash_ = header.tokenizer_hash;
  tokens_offset_ = sizeof(Header);
  if (has_loss) loss_bits_ = std::make_unique<LossBits>(*file_, ids_end, header.tokens);
  document_ends_ = std::make_unique<DocumentEnds>(
      *file_, DocumentEnds::Place{.offset = ends, .count = header.documents}, header.tokens);
}

void TokenFile::read_raw(const RawTokenFormat& raw) {
  const std::size_t token_bytes = size_of(raw.type);
  if (file_->bytes() % token_bytes != 0) {
    throw IoError(name_ + ": has " + std::to_string(file_->bytes()) +
                  " bytes, not a multiple of the " + std::to_string(token_bytes) +
                  " that data.dtype gives a token");
  }
  type_ = raw.type;
  end_of_document_ = raw.end_of_document;
  document_begins_ = raw.document_begins;
  size_ = static_cast<std::int64_t>(file_->bytes() / token_bytes);
  require_width(*this, type_);
}

std::optional<std::int64_t> TokenFile::documents() const {
  if (!document_ends_) return std::nullopt;
  return static_cast<std::int64_t>(document_ends_->count());
}

TokenStorage TokenFile::storage() const {
  return {.kind = document_ends_ ? "strata" : "bare ids",
          .version = version_,
          .id_bytes = size_of(type_),
          .tells_documents = document_ends_ || end_of_document_,
          .documents = documents()};
}

void TokenFile::read(std::int64_t begin, std::span<std::int32_t> out) const {
  check_range(*this, begin, static_cast<std::int64_t>(out.size()));
  read_ids(*file_, tokens_offset_ + static_cast<std::size_t>(begin) * size_of(type_), type_, out);
}

void TokenFile::document_ends_in(std::int64_t begin, std::int64_t end,
                                 std::vector<std::int64_t>& ends) const {
  check_range(*this, begin, end - begin);
  if (document_ends_) {
    document_ends_->append_in(*file_, begin, end, ends);
  } else if (end_of_document_) {
    const Separator separator{.id = *end_of_document_, .begins = document_begins_};
    append_ends_by_id(*this, separator, begin, end, ends);
  }
}

void TokenFile::read_loss(std::int64_t begin, std::span<std::uint8_t> out) const {
  if (!loss_bits_) return TokenSource::read_loss(begin, out);
  check_range(*this, begin, static_cast<std::int64_t>(out.size()));
  loss_bits_->read(*file_, begin, out);
}

}  // namespace strata
