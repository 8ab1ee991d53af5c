// What a model of SentencePiece says, as its message has it (sentencepiece_model.proto).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

enum class PieceType : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct SentencePieceModel {
  struct Piece {
    std::string text{};
    float score = 0;
    PieceType type = PieceType::kNormal;
  };
  enum class Type : std::uint8_t { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };

  std::vector<Piece> pieces{};  ///< by id
  // The trainer's.
  Type type = Type::kUnigram;
  bool byte_fallback = false;
  bool space_is_suffix = false;
  std::string unknown_surface = " \xe2\x81\x87 ";
  std::string bos = "<s>";
  std::string eos = "</s>";
  // The normalizer's.
  std::string normalizer{};
  std::string normalizer_map{};  ///< which texts it replaces, compiled
  std::string denormalizer_map{};
  bool add_dummy_prefix = true;
  bool remove_extra_spaces = true;
  bool escape_spaces = true;
};

/// Throws ConfigError, without the file's name, if `contents` is no such message.
[[nodiscard]] SentencePieceModel parse_sentencepiece_model(std::string_view contents);

}  // namespace strata
