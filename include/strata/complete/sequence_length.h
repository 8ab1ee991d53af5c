// Says that a sequence is too long. Prompts, records that are scored and samples of a run ask here,
// so that all of them count alike and say the same; whoever asks names the remedy, because only it
// knows the option or key that the length came by.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace strata {

/// The tokens of a sequence that is wanted, and those that it may have.
struct SequenceLength {
  std::int64_t tokens = 0;     ///< that are given: of a prompt, or of a text that is scored
  std::int64_t to_follow = 0;  ///< that may be drawn after them; 0: none are drawn
  std::int64_t most = 0;       ///< that the sequence may have
  std::string_view limit{};    ///< the name of what says so; empty: it needs none
};

/// Returns an empty text if the sequence fits. Otherwise returns what is wrong, as the rest of a
/// sentence about the prompt or the text: "has 9 tokens and up to 8 are to follow, but a sequence
/// may have 16 (--context); REMEDY".
[[nodiscard]] std::string too_long(const SequenceLength& length, std::string_view remedy);

/// Returns the error of sequences that have more tokens than the model has positions for: "a
/// sequence would have 40 tokens, and the model has positions for 32 (LIMIT); REMEDY". Whoever
/// calls has compared them, because a last token that is scored needs no position.
[[nodiscard]] std::string too_few_positions(std::int64_t tokens, std::int64_t positions,
                                            std::string_view remedy,
                                            std::string_view limit = "max_position_embeddings");

}  // namespace strata
