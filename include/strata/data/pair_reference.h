// The log-probabilities that a reference, a model as it was before training, gives to the answers
// of a token file of pairs: computed once by `evaluate --reference`, kept in a file beside the
// token file, and read by runs whose reference is stored.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strata/base/file.h"
#include "strata/base/output_file.h"
#include "strata/data/token_source.h"

namespace strata {

/// A pair of a token file and what the reference makes of it.
struct StoredPair {
  PairPlace place;  ///< in the token file
  PairLogs logs;
};

/// What a reference was computed of.
struct ReferenceOrigin {
  std::uint64_t model = 0;       ///< hash of the model's weights
  std::int64_t most_tokens = 0;  ///< of an answer; pairs with a longer one are left out
};

/// Returns the name of the file that holds the reference of a token file.
[[nodiscard]] std::string reference_file_of(const std::string& token_file);

/// Writes the reference of `tokens`, a whole token file, to the file of reference_file_of(), and
/// publishes it in place of an earlier one. Pairs are ascending. Throws as OutputFile does.
void write_reference(OutputFile& file, const TokenSource& tokens, const ReferenceOrigin& origin,
                     std::span<const StoredPair> pairs);

/// What a run wants of a reference.
struct ReferenceWish {
  std::string model_folder;         ///< of the model that must have computed it, for messages
  std::uint64_t model = 0;          ///< hash of its weights
  std::int64_t longest_answer = 0;  ///< tokens; shorter pairs must not be left out
};

/// A token file of pairs with its reference, which is looked up in the file when it is asked for:
/// it takes no memory. The tokens of the pair are then compared with those that were scored. Safe
/// from any thread.
class ReferencedTokens final : public TokenSource {
 public:
  /// `tokens` is a whole token file, whose reference lies beside it. Throws IoError that names the
  /// reference's file and the command that computes it, if it is missing or damaged, of another
  /// model or of other tokens, or if it leaves out pairs that are wanted.
  ReferencedTokens(std::unique_ptr<TokenSource> tokens, const ReferenceWish& wish);

  [[nodiscard]] const std::string& name() const override { return tokens_->name(); }
  [[nodiscard]] std::int64_t size() const override { return tokens_->size(); }
  [[nodiscard]] std::int64_t vocabulary() const override { return tokens_->vocabulary(); }
  [[nodiscard]] std::uint64_t tokenizer_hash() const override { return tokens_->tokenizer_hash(); }
  [[nodiscard]] TokenStorage storage() const override { return tokens_->storage(); }
  void read(std::int64_t begin, std::span<std::int32_t> out) const override {
    tokens_->read(begin, out);
  }
  void document_ends_in(std::int64_t begin, std::int64_t end,
                        std::vector<std::int64_t>& ends) const override {
    tokens_->document_ends_in(begin, end, ends);
  }
  [[nodiscard]] bool has_loss() const override { return tokens_->has_loss(); }
  void read_loss(std::int64_t begin, std::span<std::uint8_t> out) const override {
    tokens_->read_loss(begin, out);
  }
  [[nodiscard]] bool has_pairs() const override { return tokens_->has_pairs(); }
  [[nodiscard]] PairLogs reference_logs(const PairPlace& pair) const override;
  [[nodiscard]] TokenPlace place_of(std::int64_t token) const override {
    return tokens_->place_of(token);
  }

 private:
  void check_header(const ReferenceWish& wish);
  [[noreturn]] void refuse(const std::string& what) const;

  std::unique_ptr<TokenSource> tokens_;
  std::string remedy_;
  std::unique_ptr<InputFile> file_;
  std::int64_t pairs_ = 0;
};

}  // namespace strata
