// Reads several sources as one. A range is cut at the ends of the parts, and each piece is asked of
// its own.

#include "strata/data/joined_tokens.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "strata/base/error.h"
#include "strata/data/compatible.h"

namespace strata {

JoinedTokens::JoinedTokens(std::vector<std::unique_ptr<TokenSource>> parts)
    : parts_(std::move(parts)), begins_{0} {
  if (parts_.empty()) throw IoError("no token file is named");
  std::vector<const TokenSource*> sources;
  for (const std::unique_ptr<TokenSource>& part : parts_) {
    sources.push_back(part.get());
    std::int64_t end = 0;
    if (__builtin_add_overflow(begins_.back(), part->size(), &end)) {
      throw IoError(part->name() +
                    ": with the files before it has more tokens than can be counted");
    }
    begins_.push_back(end);
    if (vocabulary_ == 0) vocabulary_ = part->vocabulary();
    if (tokenizer_hash_ == 0) tokenizer_hash_ = part->tokenizer_hash();
    has_loss_ = has_loss_ || part->has_loss();
    if (part->has_pairs() == parts_[0]->has_pairs()) continue;
    throw IoError(part->name() + ": " + (part->has_pairs() ? "holds" : "does not hold") +
                  " pairs of answers, unlike " + parts_[0]->name() +
                  "; name files of one kind as a source");
  }
  require_one_tokenizer(sources);
  name_ = parts_[0]->name();
  if (parts_.size() > 1) name_ += " and " + std::to_string(parts_.size() - 1) + " more";
}

TokenStorage JoinedTokens::storage() const {
  TokenStorage storage = parts_.front()->storage();
  for (std::size_t i = 1; i < parts_.size(); ++i) {
    const std::optional<std::int64_t> more = parts_[i]->storage().documents;
    storage.documents =
        storage.documents && more ? std::optional(*storage.documents + *more) : std::nullopt;
  }
  return storage;
}

std::size_t JoinedTokens::part_with(std::int64_t token) const {
  const auto after = std::upper_bound(begins_.begin(), begins_.end() - 1, token);
  return static_cast<std::size_t>(after - begins_.begin()) - 1;
}

/// Calls `take(part, its first token, begin, end)` for the pieces of a range, which count from the
/// part's first token.
template <class Take>
void JoinedTokens::for_each_part(std::int64_t begin, std::int64_t end, const Take& take) const {
  check_range(*this, begin, end - begin);
  for (std::size_t i = part_with(begin); begin < end; ++i) {
    const std::int64_t first = begins_[i];
    const std::int64_t last = std::min(end, begins_[i + 1]);
    if (begin < last) take(*parts_[i], first, begin - first, last - first);
    begin = std::max(begin, last);
  }
}

void JoinedTokens::read(std::int64_t begin, std::span<std::int32_t> out) const {
  for_each_part(begin, begin + std::ssize(out),
                [&](const TokenSource& part, std::int64_t, std::int64_t from, std::int64_t to) {
                  const auto count = static_cast<std::size_t>(to - from);
                  part.read(from, out.first(count));
                  out = out.subspan(count);
                });
}

void JoinedTokens::read_loss(std::int64_t begin, std::span<std::uint8_t> out) const {
  for_each_part(begin, begin + std::ssize(out),
                [&](const TokenSource& part, std::int64_t, std::int64_t from, std::int64_t to) {
                  const auto count = static_cast<std::size_t>(to - from);
                  part.read_loss(from, out.first(count));
                  out = out.subspan(count);
                });
}

void JoinedTokens::document_ends_in(std::int64_t begin, std::int64_t end,
                                    std::vector<std::int64_t>& ends) const {
  for_each_part(
      begin, end,
      [&](const TokenSource& part, std::int64_t first, std::int64_t from, std::int64_t to) {
        const std::size_t before = ends.size();
        part.document_ends_in(from, to, ends);
        for (std::size_t i = before; i < ends.size(); ++i) ends[i] += first;
        const bool told = ends.size() > before && ends.back() == first + to;
        if (to == part.size() && !told) ends.push_back(first + to);
      });
}

PairLogs JoinedTokens::reference_logs(const PairPlace& pair) const {
  const std::size_t part = part_with(pair.begin);
  const std::int64_t first = begins_[part];
  return parts_[part]->reference_logs(
      {.begin = pair.begin - first, .middle = pair.middle - first, .end = pair.end - first});
}

TokenPlace JoinedTokens::place_of(std::int64_t token) const {
  const std::size_t part = part_with(token);
  return parts_[part]->place_of(token - begins_[part]);
}

}  // namespace strata
