// Cuts long rows of tokens into what is scored: windows of one length that overlap, or the rows
// that a run validates on. Each comes as a sequence for the scorer, with what of it counts.
// `evaluate` chooses the reader, and score_windows() reads it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "strata/complete/scorer.h"
#include "strata/data/token_source.h"

namespace strata {

/// Reads `count` tokens from `begin` on. Throws ConfigError, which names file and token, for an id
/// that is none of the model's.
[[nodiscard]] std::vector<std::int32_t> read_model_ids(const TokenSource& tokens,
                                                       std::int64_t vocabulary, std::int64_t begin,
                                                       std::int64_t count);
/// Reads whether the loss of each of `count` tokens from `begin` on counts.
[[nodiscard]] std::vector<std::uint8_t> read_loss(const TokenSource& tokens, std::int64_t begin,
                                                  std::int64_t count);

/// A sequence to be scored, and whose loss of it counts.
struct ScoredWindow {
  ScoreRequest request;
  std::vector<std::uint8_t> loss{};  ///< of the tokens from request.from on: 1 if it counts
  std::int64_t number = 0;           ///< of the window or row, from 0 on; sequences may share one
  bool goes_on = false;  ///< its first scored token follows the last one of the sequence before
};

/// The windows of a source, one after another.
class WindowReader {
 public:
  virtual ~WindowReader() = default;
  /// Returns how many windows or rows there are.
  [[nodiscard]] virtual std::int64_t count() const = 0;
  /// Returns the most tokens of a sequence.
  [[nodiscard]] virtual std::int64_t context() const = 0;
  /// Returns the next sequence, or nothing. Throws ConfigError, which names file and token, for an
  /// id that is none of the model's.
  [[nodiscard]] virtual std::optional<ScoredWindow> next() = 0;
};

/// Windows of so many tokens that begin so many after one another, the last one so that it is full.
/// A token counts in the first window that has it after others. Documents are not kept apart.
class OverlappingWindows final : public WindowReader {
 public:
  struct Cut {
    std::int64_t context = 0;  ///< at least 2, at most what the source has
    std::int64_t stride = 0;   ///< at least 1, less than `context`
  };
  OverlappingWindows(const TokenSource& tokens, std::int64_t vocabulary, const Cut& cut);
  [[nodiscard]] std::int64_t count() const override { return count_; }
  [[nodiscard]] std::int64_t context() const override { return cut_.context; }
  [[nodiscard]] std::optional<ScoredWindow> next() override;

 private:
  const TokenSource& tokens_;
  std::int64_t vocabulary_;
  Cut cut_;
  std::int64_t count_;
  std::int64_t taken_ = 0;
  std::int64_t scored_to_ = 1;  ///< tokens before this one are first, or scored in a window
};

/// What a user says about windows.
struct WindowOptions {
  std::optional<std::int64_t> context{};  ///< tokens of a window; absent: as usual
  std::optional<std::int64_t> stride{};   ///< absent: each token but the first is scored once
  std::int64_t usual_context = 0;
};

/// Returns the windows of a source that the options ask for; a short source is one window. Throws
/// ConfigError for a source of less than two tokens, and for options by which a window would have
/// none to score, naming them.
[[nodiscard]] OverlappingWindows::Cut cut_windows(const TokenSource& tokens,
                                                  const WindowOptions& options);

/// The rows that training's validation takes: T inputs and the T tokens after them, one row behind
/// the other; tokens at the end that fill none are left out. With a mask each document of a row is
/// a sequence of its own. Sequences of which nothing counts are passed over.
class ValidationRows final : public WindowReader {
 public:
  struct Cut {
    std::int64_t row_tokens = 0;  ///< T
    bool document_mask = false;
  };
  /// Throws ConfigError if the source does not fill a row.
  ValidationRows(const TokenSource& tokens, std::int64_t vocabulary, const Cut& cut);
  [[nodiscard]] std::int64_t count() const override { return count_; }
  [[nodiscard]] std::int64_t context() const override { return cut_.row_tokens + 1; }
  [[nodiscard]] std::optional<ScoredWindow> next() override;

 private:
  void read_row();

  const TokenSource& tokens_;
  std::int64_t vocabulary_;
  Cut cut_;
  std::int64_t count_;
  std::int64_t taken_ = 0;
  std::deque<ScoredWindow> waiting_;  ///< of the row that was read last
  bool open_ = false;                 ///< its last sequence goes to the token behind the row
};

}  // namespace strata
