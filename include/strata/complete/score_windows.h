// Scores a long row of tokens window by window: the loss of all tokens that count, with its error,
// and how many bits a byte of their text takes. `evaluate` calls it for token files and texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strata/complete/estimate.h"
#include "strata/complete/model_text.h"
#include "strata/complete/scored_windows.h"
#include "strata/data/token_source.h"
#include "strata/engine/sweep_engine.h"

namespace strata {

/// The tokens of a text, as a source.
class TextTokens final : public TokenSource {
 public:
  TextTokens(std::string name, std::vector<std::int32_t> ids)
      : name_(std::move(name)), ids_(std::move(ids)) {}
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::int64_t size() const override { return std::ssize(ids_); }
  [[nodiscard]] std::int64_t vocabulary() const override { return 0; }
  [[nodiscard]] std::uint64_t tokenizer_hash() const override { return 0; }
  void read(std::int64_t begin, std::span<std::int32_t> out) const override;
  void document_ends_in(std::int64_t, std::int64_t, std::vector<std::int64_t>&) const override {}

 private:
  std::string name_;
  std::vector<std::int32_t> ids_;
};

/// What is scored in windows.
struct WindowScoring {
  const TokenSource& tokens;  ///< that the reader reads
  const ModelText& text;
  WindowReader& reader;
  std::optional<std::size_t> text_bytes{};  ///< of the tokens' text; absent: they are counted
};

/// What the tokens of all windows come to.
struct WindowScores {
  std::int64_t tokens = 0;                ///< whose loss counts
  Estimate loss{};                        ///< nats of a token
  std::size_t bytes = 0;                  ///< of the text of these tokens; 0: nobody knows
  std::optional<double> bits_per_byte{};  ///< absent where nobody knows the bytes
};

/// Is told how many more windows were begun, 0 or more, before each sequence.
using WindowsBegun = std::function<void(std::int64_t more)>;

/// Scores all windows of the reader. The engine was planned for scores of the reader's context.
/// Throws ConfigError if no loss counts, what the callback throws, and as Scorer::run does.
[[nodiscard]] WindowScores score_windows(SweepEngine& engine, const WindowScoring& what,
                                         const WindowsBegun& begun);

}  // namespace strata
