// Reads and writes files of references: a header, and an entry for each pair in the order of the
// token file. A pair is found by bisection in the file, which the system keeps in memory.

#include "strata/data/pair_reference.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "data/text_hash.h"
#include "strata/base/error.h"
#include "strata/base/shell_word.h"
#include "strata/data/source_content.h"

namespace strata {

namespace {

static_assert(std::endian::native == std::endian::little, "references are read as they are");

/// The first 64 bytes of a file, as they lie there.
struct ReferenceHeader {
  std::array<char, 8> magic{'S', 'T', 'R', 'R', 'E', 'F', '\r', '\n'};
  std::uint64_t version = 1;
  std::uint64_t model = 0;
  std::uint64_t tokens = 0;       ///< of the token file
  std::uint64_t digest = 0;       ///< of their content
  std::uint64_t pairs = 0;        ///< in this file
  std::uint64_t left_out = 0;     ///< pairs with an answer that is longer than the next number
  std::uint64_t most_tokens = 0;  ///< of an answer
};
static_assert(sizeof(ReferenceHeader) == 64 && std::is_trivially_copyable_v<ReferenceHeader>);

/// A pair, as it lies in a file.
struct ReferenceEntry {
  std::int64_t first_token = 0;
  std::uint64_t hash = 0;  ///< of the tokens and the next two numbers, see hash_of_pair()
  double chosen = 0;
  double rejected = 0;
};
static_assert(sizeof(ReferenceEntry) == 32 && std::is_trivially_copyable_v<ReferenceEntry>);

/// Returns a hash of the ids and loss bits of a pair, of where its answers part, and of what is
/// stored of them. The header's digest is of samples, so that it sees no change of a few pairs.
std::uint64_t hash_of_pair(const TokenSource& tokens, const PairPlace& pair, const PairLogs& logs) {
  constexpr std::int64_t kAtOnce = 1024;  // tokens
  std::array<std::int32_t, kAtOnce> id_buffer;
  std::array<std::uint8_t, kAtOnce> loss_buffer;
  TextHash hash;
  for (std::int64_t begin = pair.begin; begin < pair.end; begin += kAtOnce) {
    const auto count = static_cast<std::size_t>(std::min(kAtOnce, pair.end - begin));
    const auto ids = std::span(id_buffer).first(count);
    const auto loss = std::span(loss_buffer).first(count);
    tokens.read(begin, ids);
    tokens.read_loss(begin, loss);
    add_values<std::int32_t>(hash, ids);
    add_values<std::uint8_t>(hash, loss);
  }
  add_values<std::int64_t>(hash, std::array{pair.middle - pair.begin, pair.end - pair.begin});
  add_values<double>(hash, std::array{logs.chosen, logs.rejected});
  return hash.value();
}

/// Returns what identifies the tokens of a reference.
ReferenceHeader header_of(const TokenSource& tokens) {
  const SourceContent content = content_of(tokens);
  return {.tokens = static_cast<std::uint64_t>(content.tokens), .digest = content.digest};
}

}  // namespace

std::string reference_file_of(const std::string& token_file) { return token_file + ".reference"; }

void write_reference(OutputFile& file, const TokenSource& tokens, const ReferenceOrigin& origin,
                     std::span<const StoredPair> pairs) {
  const std::int64_t in_all = tokens.storage().documents.value_or(0) / 2;
  ReferenceHeader header = header_of(tokens);
  header.model = origin.model;
  header.pairs = pairs.size();
  header.left_out = static_cast<std::uint64_t>(in_all) - header.pairs;
  header.most_tokens = static_cast<std::uint64_t>(origin.most_tokens);
  file.write(&header, sizeof header);
  for (const StoredPair& pair : pairs) {
    const ReferenceEntry entry{.first_token = pair.place.begin,
                               .hash = hash_of_pair(tokens, pair.place, pair.logs),
                               .chosen = pair.logs.chosen,
                               .rejected = pair.logs.rejected};
    file.write(&entry, sizeof entry);
  }
  file.close();
  file.publish();
}

ReferencedTokens::ReferencedTokens(std::unique_ptr<TokenSource> tokens, const ReferenceWish& wish)
    : tokens_(std::move(tokens)),
      remedy_("`strata evaluate " + shell_word(wish.model_folder) + " --input " +
              shell_word(tokens_->name()) + " --reference`") {
  const std::string file = reference_file_of(tokens_->name());
  if (!is_there(file)) {
    throw IoError(file + ": is not there, and train.reference is \"stored\"; compute it by " +
                  remedy_);
  }
  file_ = std::make_unique<InputFile>(file);
  check_header(wish);
}

void ReferencedTokens::check_header(const ReferenceWish& wish) {
  ReferenceHeader header;
  if (file_->bytes() < sizeof header) refuse("is no reference of strata, or torn");
  file_->read(0, std::as_writable_bytes(std::span(&header, 1)));
  if (header.magic != ReferenceHeader().magic) refuse("is no reference of strata");
  if (header.version != ReferenceHeader().version) refuse("is of another version of strata");
  const std::uint64_t bytes = file_->bytes() - sizeof header;
  if (bytes % sizeof(ReferenceEntry) != 0 || bytes / sizeof(ReferenceEntry) != header.pairs) {
    refuse("is torn");
  }
  const ReferenceHeader now = header_of(*tokens_);
  if (header.tokens != now.tokens || header.digest != now.digest) {
    refuse("is of other tokens than " + tokens_->name() + " has now");
  }
  if (header.model != wish.model) {
    refuse("was computed by other weights than " + wish.model_folder +
           ", from which the run starts");
  }
  if (header.left_out > 0 && header.most_tokens < static_cast<std::uint64_t>(wish.longest_answer)) {
    throw IoError(file_->path().string() + ": leaves out " + std::to_string(header.left_out) +
                  " pairs with an answer of more than " + std::to_string(header.most_tokens) +
                  " tokens, which rows of the run may hold; compute it again by " + remedy_ +
                  " with --context " + std::to_string(wish.longest_answer) + " or more");
  }
  pairs_ = static_cast<std::int64_t>(header.pairs);
}

void ReferencedTokens::refuse(const std::string& what) const {
  throw IoError(file_->path().string() + ": " + what + "; compute it again by " + remedy_);
}

PairLogs ReferencedTokens::reference_logs(const PairPlace& pair) const {
  std::int64_t begin = 0;
  std::int64_t end = pairs_;
  while (begin < end) {
    const std::int64_t middle = begin + (end - begin) / 2;
    ReferenceEntry entry;
    file_->read(sizeof(ReferenceHeader) + static_cast<std::uint64_t>(middle) * sizeof entry,
                std::as_writable_bytes(std::span(&entry, 1)));
    if (entry.first_token == pair.begin) {
      const PairLogs logs{.chosen = entry.chosen, .rejected = entry.rejected};
      if (hash_of_pair(*tokens_, pair, logs) == entry.hash) return logs;
      refuse("is damaged, or " + tokens_->name() +
             " has changed since: the pair that begins with " + "token " +
             std::to_string(pair.begin) + " is not the one that was scored");
    }
    (entry.first_token < pair.begin ? begin : end) =
        entry.first_token < pair.begin ? middle + 1 : middle;
  }
  refuse("has no pair that begins with token " + std::to_string(pair.begin));
}

}  // namespace strata
