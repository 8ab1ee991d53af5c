// Byte pair encoding: a piece of text begins as a row of symbols, and the neighbours with the
// merge of lowest rank become one symbol, the leftmost first, until no neighbours have a merge.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "strata/tokenizer/encode_cache.h"
#include "tokenizer/token_table.h"

namespace strata {

/// What a symbol is before anything is merged.
enum class BpeSymbols : std::uint8_t {
  kBytes,       ///< a byte of the text, as with ByteLevel and tiktoken
  kCodePoints,  ///< a code point, as with SentencePiece
};

/// Whether a text is cut where no merge can reach across, so that its words can be remembered.
enum class SafeCuts : bool { kNever, kAllowed };

struct BpeMerge {
  std::int32_t left;
  std::int32_t right;
  std::int32_t merged;
  std::uint32_t rank;  ///< the lowest first; of equal ones the leftmost in the text
};

struct BpeOptions {
  BpeSymbols symbols = BpeSymbols::kBytes;
  SafeCuts cuts = SafeCuts::kNever;
  bool ignore_merges = false;  ///< a piece that is a token as a whole is that token
  bool byte_fallback = false;  ///< an unknown code point becomes tokens <0x00> to <0xFF>
  bool fuse_unk = false;       ///< unknown code points in a row are one unknown token
  std::optional<std::int32_t> unk{};
};

/// A vocabulary with its merges; immutable, so many threads may use it.
class Bpe {
 public:
  /// `tokens` are the tokens' texts by id, those that merging can reach; others are empty.
  Bpe(const std::vector<std::string>& tokens, const std::vector<BpeMerge>& merges,
      const BpeOptions& options);

  /// Appends the ids of a piece. What is unknown without a token for it is left out.
  void encode(std::string_view piece, EncodeCache& cache, std::vector<std::int32_t>& ids) const;

  [[nodiscard]] const BpeOptions& options() const { return options_; }
  /// Returns all merges by rank, those of equal rank by their parts' ids.
  [[nodiscard]] std::vector<BpeMerge> merges() const;

 private:
  struct Slot {
    std::uint64_t pair = kFree;
    std::uint32_t rank = 0;
    std::int32_t merged = 0;
  };
  struct Found {
    std::uint32_t rank;
    std::int32_t merged;
  };
  struct Candidate;
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  static constexpr std::uint32_t kNoRank = ~std::uint32_t{0};

  void add_merge(const BpeMerge& merge);
  void note_pairs(std::string_view token);
  [[nodiscard]] Found find_merge(std::int32_t left, std::int32_t right) const;
  [[nodiscard]] std::size_t end_of_cut(std::string_view text, std::size_t begin) const;
  [[nodiscard]] bool is_safe_cut(char32_t left, char32_t right) const;
  void encode_cut(std::string_view piece, EncodeCache& cache, std::vector<std::int32_t>& ids) const;
  void merge_piece(std::string_view piece, std::vector<std::int32_t>& ids) const;
  void append_symbols(std::string_view piece, std::vector<std::int32_t>& symbols) const;
  [[nodiscard]] bool append_byte_tokens(std::string_view symbol,
                                        std::vector<std::int32_t>& symbols) const;
  void merge_few(std::vector<std::int32_t>& ids, std::size_t begin) const;
  void merge_many(std::vector<std::int32_t>& ids, std::size_t begin) const;

  BpeOptions options_;
  TokenTable whole_;                                          ///< for ignore_merges
  std::unordered_map<char32_t, std::int32_t> code_points_{};  ///< tokens of one code point
  std::array<std::int32_t, 256> bytes_{};      ///< tokens of one byte or of <0x..>, else -1
  std::unordered_set<std::uint64_t> pairs_{};  ///< code points that stand together in a token
  std::vector<Slot> merges_{};
  int shift_ = 0;
};

}  // namespace strata
