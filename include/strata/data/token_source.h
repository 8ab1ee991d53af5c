// What batches are cut from: a long, constant sequence of token ids, from a file or made up, some
// of which may be there to be read and not to be learned. A session owns its sources and lends them
// to batch loaders, whose threads read at the same time. Reading outside of a source throws
// IoError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

/// Where a token comes from, for messages and lists.
struct TokenPlace {
  std::string file;        ///< or the name of a source that is no file
  std::int64_t token = 0;  ///< its index there
};

/// How a source is stored, for lists.
struct TokenStorage {
  std::string_view kind = "tokens in memory";  ///< whose format it is
  std::int64_t version = 0;                    ///< of the format; 0 if it has none
  std::size_t id_bytes = 0;                    ///< of one id; 0 if it is no file
  bool tells_documents = false;                ///< whether document_ends_in() knows them
  std::optional<std::int64_t> documents{};     ///< in all; absent where that must be looked for
};

/// Where the tokens of a pair of answers are in a source.
struct PairPlace {
  std::int64_t begin = 0;   ///< the first token of the chosen answer, and so of the pair
  std::int64_t middle = 0;  ///< the first token of the rejected answer
  std::int64_t end = 0;     ///< the token after the pair
};

/// The log-probabilities of the answers of a pair, each the sum over its tokens that count.
struct PairLogs {
  double chosen = 0;
  double rejected = 0;
};

/// A long, constant sequence of token ids. Every member may be called by several threads at once.
class TokenSource {
 public:
  virtual ~TokenSource() = default;

  /// Returns a name for messages: the file's, or "synthetic tokens".
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// Returns the tokens in all.
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// Returns the bound of the ids, which are in [0, vocabulary()), or 0 if the source does not
  /// know.
  [[nodiscard]] virtual std::int64_t vocabulary() const = 0;
  /// Returns the hash of the tokenizer's definition, or 0 if the source does not know.
  [[nodiscard]] virtual std::uint64_t tokenizer_hash() const = 0;
  /// Returns how the source is stored.
  [[nodiscard]] virtual TokenStorage storage() const { return {}; }
  /// Copies tokens [begin, begin + out.size()) to `out`. Ids are not checked: one above 2^31 - 1
  /// comes out negative. Throws IoError for a range outside of [0, size()).
  virtual void read(std::int64_t begin, std::span<std::int32_t> out) const = 0;
  /// Appends to `ends`, ascending, every index e with begin < e <= end such that a document ends
  /// with token e - 1; nothing if the source does not know documents. Throws as read does.
  virtual void document_ends_in(std::int64_t begin, std::int64_t end,
                                std::vector<std::int64_t>& ends) const = 0;
  /// Returns whether the source says of each token whether its loss counts; without, all count.
  [[nodiscard]] virtual bool has_loss() const { return false; }
  /// Writes to `out`, for tokens [begin, begin + out.size()), 1 where the loss of predicting the
  /// token counts, and 0 where it does not. Throws as read does.
  virtual void read_loss(std::int64_t begin, std::span<std::uint8_t> out) const;
  /// Returns whether documents are pairs, each a chosen answer and then a rejected one to the same
  /// prompt.
  [[nodiscard]] virtual bool has_pairs() const { return false; }
  /// Returns what a reference makes of a pair. Throws IoError naming file and remedy for a pair
  /// that it has not, or has not with these tokens, and std::logic_error for a source without a
  /// reference.
  [[nodiscard]] virtual PairLogs reference_logs(const PairPlace& pair) const;
  /// Returns where a token of [0, size()) comes from.
  [[nodiscard]] virtual TokenPlace place_of(std::int64_t token) const { return {name(), token}; }
};

/// Uniform random ids for benchmarks, a pure function of (seed, position), without documents. They
/// take no memory, whatever `size` is.
class SyntheticTokens final : public TokenSource {
 public:
  /// Throws ConfigError for a negative size or an empty vocabulary.
  SyntheticTokens(std::int64_t size, std::int64_t vocabulary, std::uint64_t seed);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] std::int64_t vocabulary() const override { return vocabulary_; }
  [[nodiscard]] std::uint64_t tokenizer_hash() const override { return 0; }
  void read(std::int64_t begin, std::span<std::int32_t> out) const override;
  void document_ends_in(std::int64_t, std::int64_t, std::vector<std::int64_t>&) const override {}

 private:
  std::string name_ = "synthetic tokens";
  std::int64_t size_ = 0;
  std::int64_t vocabulary_ = 0;
  std::uint64_t seed_ = 0;
};

/// Throws IoError unless 0 <= begin and begin + count <= source.size().
void check_range(const TokenSource& source, std::int64_t begin, std::int64_t count);

}  // namespace strata
