// Joins the texts of pieces, and takes pieces that stand for bytes as bytes.

#include "tokenizer/piece_text.h"

#include <optional>

#include "tokenizer/lossy_utf8.h"
#include "tokenizer/normalizer.h"

namespace strata {
namespace {

void append_bytes(std::string& bytes, std::string& text) {
  const std::string_view all = bytes;
  for (std::size_t at = 0; at < all.size();) {
    const Utf8Sequence sequence = utf8_sequence_at(all, at);
    text += sequence.valid ? all.substr(at, sequence.bytes) : kReplacementCharacter;
    at += sequence.valid ? sequence.bytes : 1;
  }
  bytes.clear();
}

}  // namespace

std::string text_of_pieces(std::span<const std::string> pieces, const PieceRules& rules) {
  std::string text;
  std::string bytes;  // of byte pieces in a row
  bool strips = rules.stripped != PieceRules::Stripped::kNone;
  for (const std::string& piece : pieces) {
    const auto byte = rules.byte_fallback ? byte_of_token(piece) : std::nullopt;
    if (byte) {
      bytes += *byte;
      continue;
    }
    append_bytes(bytes, text);
    if (piece == rules.unknown) {
      text += rules.unknown_surface;
      continue;
    }
    std::string_view rest = piece;
    strips = strips && text.empty();
    if (strips && rest.starts_with(kSpaceMark)) {
      rest.remove_prefix(kSpaceMark.size());
      strips = rules.stripped == PieceRules::Stripped::kUntilText;
    }
    text += replaced(rest, kSpaceMark, " ");
  }
  append_bytes(bytes, text);
  return text;
}

}  // namespace strata
