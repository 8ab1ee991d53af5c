// Makes a tokenizer of texts: byte-level byte pair encoding with the merges that the library
// `tokenizers` would learn. Counters count the pieces of texts, on as many threads as there are
// counters; then the merges are learned from the counts of all. What comes out does not depend on
// how the texts were dealt out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

/// What the tokenizer is to be.
struct TokenizerTraining {
  std::int64_t vocabulary = 32000;     ///< ids in all: special tokens, 256 bytes, merges
  std::string split = "llama3";        ///< a name of split_names()
  std::string eos = "<|endoftext|>";   ///< the special token that ends texts; empty: none
  std::vector<std::string> special{};  ///< other special tokens; their ids follow that of `eos`
};

/// Returns the names of the regular expressions that may cut texts, as in "gpt2, llama3".
[[nodiscard]] std::string split_names();

class PieceCounts;

/// A tokenizer as its files.
struct TrainedTokenizer {
  std::string tokenizer_json{};         ///< what stands in tokenizer.json
  std::string tokenizer_config_json{};  ///< what stands in tokenizer_config.json
  std::int64_t vocabulary = 0;          ///< less than asked for if the texts have no more pairs
  std::int64_t merges = 0;
};

/// Counts the pieces of texts. One thread at a time uses a counter.
class PieceCounter {
 public:
  /// Throws ConfigError for a split that is none of split_names().
  explicit PieceCounter(const std::string& split);
  ~PieceCounter();
  PieceCounter(PieceCounter&&) noexcept;
  PieceCounter& operator=(PieceCounter&&) noexcept;

  /// Returns the last place of a text that begins a piece whatever follows: a letter that begins a
  /// line. What is behind it may be counted apart. Returns 0 if there is none.
  [[nodiscard]] static std::size_t last_cut(std::string_view text);
  /// Counts the pieces that begin before `end`, which is a cut, or the end of the text. Needs valid
  /// UTF-8.
  void count(std::string_view text, std::size_t end);
  /// Adds the counts of another counter.
  void add(const PieceCounter& other);

  /// Returns the number of distinct pieces.
  [[nodiscard]] std::size_t pieces() const;
  /// Returns about how many bytes of memory the counter holds and training from it will take.
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  friend TrainedTokenizer train_tokenizer(const PieceCounter&, const TokenizerTraining&,
                                          const std::function<void(std::int64_t)>&);
  int pattern_;
  std::unique_ptr<PieceCounts> counts_;
};

/// Throws ConfigError for a vocabulary that is too small, a split that is not known, and special
/// tokens that are empty, not UTF-8 or there twice.
void check_training(const TokenizerTraining& training);

/// Learns a tokenizer from counts, with the split of `training` that they were made with.
/// `on_merge` is told the number of ids that are there, now and then; if it throws, training ends
/// so. Throws as check_training() does, and OutOfMemory.
[[nodiscard]] TrainedTokenizer train_tokenizer(const PieceCounter& counter,
                                               const TokenizerTraining& training,
                                               const std::function<void(std::int64_t)>& on_merge);

}  // namespace strata
