// Several sources as one: the files of a corpus that comes in shards. Rows go on from one file to
// the next as they do from one document to the next.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strata/data/token_source.h"

namespace strata {

/// Sources one behind another. The end of each ends a document. What is known of ids and tokenizer
/// is what the first of them says that knows.
class JoinedTokens final : public TokenSource {
 public:
  /// Throws IoError if there are none, if two of them are from different tokenizers, or if some
  /// have pairs and others not.
  explicit JoinedTokens(std::vector<std::unique_ptr<TokenSource>> parts);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::int64_t size() const override { return begins_.back(); }
  [[nodiscard]] std::int64_t vocabulary() const override { return vocabulary_; }
  [[nodiscard]] std::uint64_t tokenizer_hash() const override { return tokenizer_hash_; }
  /// Returns how the first one is stored, with the documents of all.
  [[nodiscard]] TokenStorage storage() const override;
  void read(std::int64_t begin, std::span<std::int32_t> out) const override;
  void document_ends_in(std::int64_t begin, std::int64_t end,
                        std::vector<std::int64_t>& ends) const override;
  [[nodiscard]] bool has_loss() const override { return has_loss_; }
  void read_loss(std::int64_t begin, std::span<std::uint8_t> out) const override;
  [[nodiscard]] bool has_pairs() const override { return parts_.front()->has_pairs(); }
  [[nodiscard]] PairLogs reference_logs(const PairPlace& pair) const override;
  [[nodiscard]] TokenPlace place_of(std::int64_t token) const override;

 private:
  [[nodiscard]] std::size_t part_with(std::int64_t token) const;
  template <class Take>
  void for_each_part(std::int64_t begin, std::int64_t end, const Take& take) const;

  std::vector<std::unique_ptr<TokenSource>> parts_;
  std::vector<std::int64_t> begins_;  ///< first tokens of the parts, and the tokens in all
  std::string name_;
  std::int64_t vocabulary_ = 0;
  std::uint64_t tokenizer_hash_ = 0;
  bool has_loss_ = false;
};

}  // namespace strata
