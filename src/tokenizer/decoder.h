// Turns the texts of tokens into the text that they stand for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/text_search.h"
#include "tokenizer/json_section.h"
#include "tokenizer/piece_text.h"
#include "tokenizer/text_budget.h"

namespace strata {

class Decoder {
 public:
  /// Reads the section `decoder` of tokenizer.json: null, ByteLevel, Metaspace, Replace of a text,
  /// ByteFallback, Fuse, Strip, and Sequence of these. Throws ConfigError for another.
  static Decoder read(const JsonSection& section);

  /// Returns the decoder of ByteLevel alone.
  static Decoder byte_level();
  /// Returns the decoder of a model of SentencePiece.
  static Decoder sentencepiece(PieceRules rules);

  /// Returns the text of tokens, always valid UTF-8. Throws as TextBudget.
  [[nodiscard]] std::string decode(std::vector<std::string> tokens) const;

 private:
  enum class Kind : std::uint8_t {
    kByteLevel,
    kMetaspace,
    kReplace,
    kByteFallback,
    kFuse,
    kStrip,
    kPieces
  };
  struct Step {
    Kind kind = Kind::kFuse;
    std::string text{};                     ///< kMetaspace, kStrip; kReplace: what is put in
    TextSearch search{std::string_view()};  ///< kReplace
    bool strips_first = false;              ///< kMetaspace: the first token loses its replacements
    std::int32_t left = 0;                  ///< kStrip: how many at most
    std::int32_t right = 0;
    PieceRules piece_rules{};           ///< kPieces
    std::string place = "the decoder";  ///< in the file
  };
  void add(const JsonSection& section);
  static void apply(const Step& step, std::vector<std::string>& tokens, TextBudget& budget);

  std::vector<Step> steps_;
};

}  // namespace strata
