// Puts the pieces of a SentencePiece model together again, as that library does: it hides the
// space that stands before every text, and shows unknown pieces by a text of their own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace strata {

/// What pieces have in place of a space, U+2581.
inline constexpr std::string_view kSpaceMark = "\xe2\x96\x81";

struct PieceRules {
  std::string unknown{};          ///< the piece of unknown characters
  std::string unknown_surface{};  ///< what is shown in its place
  bool byte_fallback = false;     ///< whether <0xAB> is a byte
  /// How many pieces at the beginning lose the space that they begin with.
  enum class Stripped : std::uint8_t { kNone, kFirst, kUntilText } stripped = Stripped::kNone;
};

/// Returns the text of pieces, always valid UTF-8. Each byte that is not UTF-8 becomes U+FFFD.
[[nodiscard]] std::string text_of_pieces(std::span<const std::string> pieces,
                                         const PieceRules& rules);

}  // namespace strata
