// Reads rows of packed documents. Packing lists the documents of the source once and keeps where
// each one begins, sorted by row; reading walks the documents of the rows that it touches.

#include "strata/data/packed_tokens.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "data/pack_rows.h"
#include "strata/base/error.h"
#include "strata/base/narrow.h"

namespace strata {

PackedTokens::PackedTokens(std::unique_ptr<TokenSource> source, const PackingOptions& options)
    : source_(std::move(source)), row_tokens_(options.row_tokens) {
  if (row_tokens_ < 1 || row_tokens_ > std::numeric_limits<std::int32_t>::max()) {
    throw ConfigError("packing: a row cannot have " + std::to_string(row_tokens_) + " tokens");
  }
  if (source_->has_pairs() && options.overlong == Overlong::kCut) {
    throw ConfigError("data.overlong: cannot cut the pairs of " + name() + "; set it to \"drop\"");
  }
  if (source_->has_pairs()) {
    list_pairs();
  } else {
    list_documents(options.overlong);
  }
  if (counts_.documents == 0) {
    throw IoError(name() +
                  ": tells of no documents, which data.packing needs. Make the file with `strata "
                  "tokenize`, set data.eos_token, or set data.packing to false");
  }
  if (begins_.empty()) {
    throw IoError(
        name() + ": has no " + (source_->has_pairs() ? "pair" : "document") + " of at most " +
        std::to_string(row_tokens_) + " tokens, and data.overlong drops the others. " +
        (source_->has_pairs() ? "Raise" : "Set it to cut, or raise") + " data.sequence_length");
  }
  pack();
}

template <class OnEnd>
void PackedTokens::for_each_end(const OnEnd& on_end) const {
  constexpr std::int64_t kAtOnce = std::int64_t{1} << 22;  // tokens
  std::vector<std::int64_t> ends;
  for (std::int64_t asked = 0; asked < source_->size(); asked += kAtOnce) {
    ends.clear();
    source_->document_ends_in(asked, std::min(asked + kAtOnce, source_->size()), ends);
    for (const std::int64_t end : ends) on_end(end);
  }
}

void PackedTokens::list_documents(Overlong overlong) {
  std::int64_t begin = 0;
  for_each_end([&](std::int64_t end) { add_document(std::exchange(begin, end), end, overlong); });
  // Files that end documents by an id may leave the last one open.
  if (counts_.documents > 0 && begin < source_->size()) {
    add_document(begin, source_->size(), overlong);
  }
}

void PackedTokens::add_document(std::int64_t begin, std::int64_t end, Overlong overlong) {
  ++counts_.documents;
  if (end - begin > row_tokens_) {
    ++counts_.overlong;
    if (overlong == Overlong::kDrop) {
      counts_.dropped_tokens += end - begin;
      return;
    }
  }
  for (; begin < end; begin += row_tokens_) {
    begins_.push_back(begin);
    lengths_.push_back(narrow<std::int32_t>(std::min(row_tokens_, end - begin)));
  }
}

void PackedTokens::list_pairs() {
  std::int64_t begin = 0;
  std::optional<std::int64_t> middle;
  for_each_end([&](std::int64_t end) {
    if (!middle) {
      middle = end;
      return;
    }
    list_pair(std::exchange(begin, end), *middle, end);
    middle.reset();
  });
  if (!middle) return;
  throw IoError(name() + ": ends with a chosen answer without a rejected one. Tokenize it again");
}

void PackedTokens::list_pair(std::int64_t begin, std::int64_t middle, std::int64_t end) {
  constexpr std::int64_t kFewest = 2;  // the second token is the first that can have loss
  if (middle - begin < kFewest || end - middle < kFewest) {
    throw IoError(name() + ": a pair of answers that begins with token " + std::to_string(begin) +
                  " has an answer without a target. Tokenize it again");
  }
  add_document(begin, end, Overlong::kDrop);
  if (end - begin <= row_tokens_) chosen_.push_back(narrow<std::int32_t>(middle - begin));
}

void PackedTokens::pack() {
  const std::vector<std::int64_t> rows = pack_rows(lengths_, narrow<std::int32_t>(row_tokens_));
  counts_.rows = *std::max_element(rows.begin(), rows.end()) + 1;
  counts_.tokens = std::accumulate(lengths_.begin(), lengths_.end(), std::int64_t{0});
  counts_.padding = counts_.rows * row_tokens_ - counts_.tokens;

  // A row more than there are: the token behind the last row is in it.
  row_documents_.assign(static_cast<std::size_t>(counts_.rows) + 2, 0);
  for (const std::int64_t row : rows) ++row_documents_[static_cast<std::size_t>(row) + 1];
  std::partial_sum(row_documents_.begin(), row_documents_.end(), row_documents_.begin());
  std::vector<std::int64_t> next = row_documents_;
  std::vector<std::int64_t> begins(begins_.size());
  std::vector<std::int32_t> lengths(lengths_.size());
  std::vector<std::int32_t> chosen(chosen_.size());
  for (std::size_t document = 0; document < rows.size(); ++document) {
    const auto to = static_cast<std::size_t>(next[static_cast<std::size_t>(rows[document])]++);
    begins[to] = begins_[document];
    lengths[to] = lengths_[document];
    if (!chosen_.empty()) chosen[to] = chosen_[document];
  }
  begins_ = std::move(begins);
  lengths_ = std::move(lengths);
  chosen_ = std::move(chosen);
}

/// Calls `take(run)` for all runs of a range in their order.
template <class Take>
void PackedTokens::for_each_run(std::int64_t begin, std::int64_t end, const Take& take) const {
  check_range(*this, begin, end - begin);
  const auto take_part = [&](std::int64_t first, std::int64_t last, std::int64_t source_begin) {
    const std::int64_t from = std::max(first, begin);
    const std::int64_t to = std::min(last, end);
    if (from >= to) return;
    take(Run{.begin = from,
             .end = to,
             .source_begin = source_begin == kPadding ? kPadding : source_begin + from - first,
             .ends_document = to == last});
  };
  for (std::int64_t row = begin / row_tokens_; row * row_tokens_ < end; ++row) {
    std::int64_t at = row * row_tokens_;
    const auto r = static_cast<std::size_t>(row);
    for (auto i = static_cast<std::size_t>(row_documents_[r]);
         i < static_cast<std::size_t>(row_documents_[r + 1]); ++i) {
      const std::int32_t first = chosen_.empty() ? 0 : chosen_[i];
      if (first > 0) take_part(at, at + first, begins_[i]);
      take_part(at + first, at + lengths_[i], begins_[i] + first);
      at += lengths_[i];
    }
    take_part(at, (row + 1) * row_tokens_, kPadding);
  }
}

void PackedTokens::read(std::int64_t begin, std::span<std::int32_t> out) const {
  for_each_run(begin, begin + std::ssize(out), [&](const Run& run) {
    const auto part = out.first(static_cast<std::size_t>(run.end - run.begin));
    if (run.source_begin == kPadding) {
      std::fill(part.begin(), part.end(), 0);
    } else {
      source_->read(run.source_begin, part);
    }
    out = out.subspan(part.size());
  });
}

void PackedTokens::read_loss(std::int64_t begin, std::span<std::uint8_t> out) const {
  for_each_run(begin, begin + std::ssize(out), [&](const Run& run) {
    const auto part = out.first(static_cast<std::size_t>(run.end - run.begin));
    if (run.source_begin == kPadding) {
      std::fill(part.begin(), part.end(), std::uint8_t{0});
    } else {
      source_->read_loss(run.source_begin, part);
    }
    out = out.subspan(part.size());
  });
}

void PackedTokens::document_ends_in(std::int64_t begin, std::int64_t end,
                                    std::vector<std::int64_t>& ends) const {
  for_each_run(begin, end, [&](const Run& run) {
    if (run.ends_document) ends.push_back(run.end);
  });
}

PairLogs PackedTokens::reference_logs(const PairPlace& pair) const {
  PairLogs logs;
  for_each_run(pair.begin, pair.begin + 1, [&](const Run& run) {
    const std::int64_t shift = run.source_begin - pair.begin;
    logs = source_->reference_logs(
        {.begin = run.source_begin, .middle = pair.middle + shift, .end = pair.end + shift});
  });
  return logs;
}

TokenPlace PackedTokens::place_of(std::int64_t token) const {
  TokenPlace place{.file = "padding", .token = token};
  for_each_run(token, token + 1, [&](const Run& run) {
    if (run.source_begin != kPadding) place = source_->place_of(run.source_begin);
  });
  return place;
}

}  // namespace strata
