// Whole documents packed into rows: a token source that stands before another one and holds its
// documents in such an order that none crosses the end of a row, with padding where rows are not
// full. Batch loaders cut it into rows like any source, so that shuffling, mixing, resuming and
// ranks are theirs. Training uses it where data.packing says so.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strata/data/overlong.h"
#include "strata/data/token_source.h"

namespace strata {

/// What packing made of a source.
struct PackingCounts {
  std::int64_t documents = 0;  ///< of the source; a pair of answers counts as one
  std::int64_t overlong = 0;   ///< of these: longer than a row
  std::int64_t dropped_tokens = 0;
  std::int64_t tokens = 0;   ///< in the rows, without padding
  std::int64_t padding = 0;  ///< tokens that fill rows up
  std::int64_t rows = 0;

  /// Returns the share of the rows' tokens that are padding, in [0, 1).
  [[nodiscard]] double padding_share() const {
    return static_cast<double>(padding) / static_cast<double>(tokens + padding);
  }
};

/// How documents are packed.
struct PackingOptions {
  std::int64_t row_tokens = 0;  ///< T, at least 1
  Overlong overlong = Overlong::kCut;
};

/// The documents of a source, row by row. Which document gets where is a pure function of the
/// source's document ends and the options: best fit by decreasing length; rows are numbered by
/// their first document, and documents stand in a row as they do in the source. Padding has id 0
/// and no loss, and is a document of its own. A pair of answers is packed as one document, whose
/// two ends are told. Keeps 12 bytes a document, and 8 a row; making it
/// takes about 36 bytes a document more.
class PackedTokens final : public TokenSource {
 public:
  /// Reads all document ends. Throws IoError if the source knows none, if no document is left, or
  /// for a pair without targets, and ConfigError for rows without tokens, or to cut pairs.
  PackedTokens(std::unique_ptr<TokenSource> source, const PackingOptions& options);

  [[nodiscard]] const PackingCounts& counts() const { return counts_; }
  [[nodiscard]] const std::string& name() const override { return source_->name(); }
  /// Returns rows * T + 1: one token of padding behind the last row, which a loader wants there.
  [[nodiscard]] std::int64_t size() const override { return counts_.rows * row_tokens_ + 1; }
  [[nodiscard]] std::int64_t vocabulary() const override { return source_->vocabulary(); }
  [[nodiscard]] std::uint64_t tokenizer_hash() const override { return source_->tokenizer_hash(); }
  void read(std::int64_t begin, std::span<std::int32_t> out) const override;
  void document_ends_in(std::int64_t begin, std::int64_t end,
                        std::vector<std::int64_t>& ends) const override;
  [[nodiscard]] bool has_loss() const override { return true; }
  [[nodiscard]] bool has_pairs() const override { return source_->has_pairs(); }
  void read_loss(std::int64_t begin, std::span<std::uint8_t> out) const override;
  [[nodiscard]] PairLogs reference_logs(const PairPlace& pair) const override;
  /// Returns the place in the source, or "padding" and the token's index here.
  [[nodiscard]] TokenPlace place_of(std::int64_t token) const override;

 private:
  /// A run of tokens of one row that belong together.
  struct Run {
    std::int64_t begin = 0;         ///< in this packed source
    std::int64_t end = 0;           ///< in this packed source
    std::int64_t source_begin = 0;  ///< where `begin` is in the source, or kPadding
    bool ends_document = false;     ///< whether a document, or a row's padding, ends at `end`
  };
  static constexpr std::int64_t kPadding = -1;

  void list_documents(Overlong overlong);
  void list_pairs();
  void list_pair(std::int64_t begin, std::int64_t middle, std::int64_t end);
  /// Calls `on_end` for the end of each document that the source tells.
  template <class OnEnd>
  void for_each_end(const OnEnd& on_end) const;
  void add_document(std::int64_t begin, std::int64_t end, Overlong overlong);
  void pack();
  template <class Take>
  void for_each_run(std::int64_t begin, std::int64_t end, const Take& take) const;

  std::unique_ptr<TokenSource> source_;
  std::int64_t row_tokens_ = 0;
  PackingCounts counts_;
  std::vector<std::int64_t> begins_;         ///< of documents in the source, row by row
  std::vector<std::int32_t> lengths_;        ///< of the same
  std::vector<std::int32_t> chosen_;         ///< tokens of pairs' chosen answers; else empty
  std::vector<std::int64_t> row_documents_;  ///< the first document of each row, and their number
};

}  // namespace strata
