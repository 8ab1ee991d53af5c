// Makes the parts of a tokenizer of a SentencePiece model. A text goes through the library's
// normalizer, user-defined pieces are found in it, and the rest is merged by score. The library
// merges whatever has a piece as its joint text, so each piece is as many merges as there are ways
// to cut it in two pieces.

#include "tokenizer/sentencepiece_file.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/text.h"
#include "tokenizer/lossy_utf8.h"
#include "tokenizer/piece_text.h"
#include "tokenizer/protobuf_reader.h"
#include "tokenizer/ranked_merges.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/unicode.h"

namespace strata {
namespace {

using Piece = SentencePieceModel::Piece;

[[noreturn]] void refuse_model(const std::string& what) {
  throw ConfigError(what + " is not supported. Make token files with SentencePiece itself");
}

std::string name_of(const Piece& piece) { return shortened(printable_name(piece.text)); }

bool is_one_character(std::string_view text) {
  return decode_utf8(text.data()).bytes == text.size();
}

void refuse_unsupported(const SentencePieceModel& model) {
  constexpr std::array kTypes{"unigram", "bpe", "word", "char"};
  if (model.type != SentencePieceModel::Type::kBpe) {
    const auto type = static_cast<std::size_t>(model.type) - 1;
    refuse_model("the model_type " +
                 (type < kTypes.size() ? std::string(kTypes[type]) : "of this file"));
  }
  if (!model.normalizer_map.empty())
    refuse_model("the normalizer " + printable_name(shortened(model.normalizer)));
  if (!model.denormalizer_map.empty()) refuse_model("a denormalizer");
  if (model.space_is_suffix) refuse_model("treat_whitespace_as_suffix");
  if (!model.escape_spaces) refuse_model("a normalizer without escape_whitespaces");
}

void check_piece(const Piece& piece) {
  if (to_valid_utf8(piece.text) != piece.text) {
    throw ConfigError("the piece " + name_of(piece) + " is not UTF-8");
  }
  if (piece.type == PieceType::kUnused && !is_one_character(piece.text)) {
    refuse_model("the unused piece " + name_of(piece));
  }
  if (piece.type == PieceType::kUserDefined && piece.text.find(' ') != piece.text.npos) {
    refuse_model("the user-defined piece " + name_of(piece) + " with a space");
  }
}

TokenTable model_table(const SentencePieceModel& model) {
  TokenTable table;
  table.reserve(model.pieces.size());
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    check_piece(model.pieces[id]);
    const std::string& text = model.pieces[id].text;
    if (table.find(text)) throw ConfigError("has twice the piece " + name_of(model.pieces[id]));
    table.set(static_cast<std::int32_t>(id), text);
  }
  return table;
}

/// Returns the texts that merging starts from and leads to, by id. User-defined pieces have been
/// found before; a control piece of one character is what that character becomes.
std::vector<std::string> merging_texts(const SentencePieceModel& model) {
  std::vector<std::string> texts(model.pieces.size());
  for (std::size_t id = 0; id < texts.size(); ++id) {
    const Piece& piece = model.pieces[id];
    const bool is_part = piece.type == PieceType::kNormal || piece.type == PieceType::kUnused ||
                         (piece.type == PieceType::kControl && is_one_character(piece.text));
    if (is_part) texts[id] = piece.text;
  }
  return texts;
}

/// Returns the texts with those of byte pieces, which nothing merges.
std::vector<std::string> with_bytes(std::vector<std::string> texts,
                                    const SentencePieceModel& model) {
  for (std::size_t id = 0; id < texts.size(); ++id) {
    if (model.pieces[id].type == PieceType::kByte) texts[id] = model.pieces[id].text;
  }
  return texts;
}

/// The library can merge a character that is no piece; here symbols have ids.
void require_characters(const SentencePieceModel& model, const TokenTable& table) {
  for (const Piece& piece : model.pieces) {
    if (piece.type != PieceType::kNormal) continue;
    const std::string_view text = piece.text;
    for (std::size_t at = 0, next = 0; at < text.size(); at = next) {
      next = at + decode_utf8(text.data() + at).bytes;
      const std::string_view character = text.substr(at, next - at);
      if (!table.find(character)) {
        refuse_model("the piece " + name_of(piece) + ", whose character " +
                     printable_name(character) + " is no piece,");
      }
    }
  }
}

std::vector<std::uint32_t> ranks_of(const SentencePieceModel& model) {
  std::vector<float> scores;
  for (const Piece& piece : model.pieces) scores.push_back(-piece.score);
  std::sort(scores.begin(), scores.end());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  std::vector<std::uint32_t> ranks;
  for (const Piece& piece : model.pieces) {
    const auto found = std::lower_bound(scores.begin(), scores.end(), -piece.score);
    ranks.push_back(static_cast<std::uint32_t>(found - scores.begin()));
  }
  return ranks;
}

AddedTokens added_of(const SentencePieceModel& model) {
  std::vector<AddedToken> added;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const Piece& piece = model.pieces[id];
    const bool special = piece.type == PieceType::kControl;
    if (!special && piece.type != PieceType::kUserDefined) continue;
    added.push_back({.id = static_cast<std::int32_t>(id),
                     .text = piece.text,
                     .pattern = piece.text,
                     .normalized = !special,
                     .special = special});
  }
  return AddedTokens(std::move(added));
}

Normalizer normalizer_of(const SentencePieceModel& model) {
  Normalizer normalizer;
  if (model.remove_extra_spaces) normalizer.add_collapse_spaces();
  if (model.add_dummy_prefix) normalizer.add_prepend(std::string(kSpaceMark));
  normalizer.add_replace(" ", std::string(kSpaceMark));
  if (model.remove_extra_spaces) normalizer.add_strip_end(std::string(kSpaceMark));
  return normalizer;
}

BpeOptions options_of(const SentencePieceModel& model) {
  BpeOptions options{.symbols = BpeSymbols::kCodePoints,
                     .cuts = SafeCuts::kAllowed,
                     .byte_fallback = model.byte_fallback,
                     .fuse_unk = true};
  std::int32_t bytes = 0;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const PieceType type = model.pieces[id].type;
    if (type == PieceType::kUnknown) options.unk = static_cast<std::int32_t>(id);
    if (type == PieceType::kByte) ++bytes;
  }
  if (!options.unk) throw ConfigError("has no piece for unknown characters");
  if (bytes != (model.byte_fallback ? 256 : 0)) {
    throw ConfigError("has " + std::to_string(bytes) + " pieces for bytes, but byte_fallback is " +
                      (model.byte_fallback ? "on and needs 256" : "off"));
  }
  if (model.byte_fallback) options.unk.reset();  // so nothing is unknown
  return options;
}

PieceRules rules_of(const SentencePieceModel& model) {
  PieceRules rules{.unknown_surface = model.unknown_surface, .byte_fallback = model.byte_fallback};
  for (const Piece& piece : model.pieces) {
    if (piece.type == PieceType::kUnknown) rules.unknown = piece.text;
  }
  if (model.add_dummy_prefix) rules.stripped = PieceRules::Stripped::kFirst;
  if (model.remove_extra_spaces) rules.stripped = PieceRules::Stripped::kUntilText;
  return rules;
}

std::uint64_t model_hash(const SentencePieceModel& model) {
  TokenizerHash hash;
  hash.add("sentencepiece bpe");
  const std::vector<std::uint32_t> ranks = ranks_of(model);
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    hash.add(model.pieces[id].text);
    hash.add(std::to_string(static_cast<int>(model.pieces[id].type)) + ' ' +
             std::to_string(ranks[id]));
  }
  for (const bool flag : {model.byte_fallback, model.add_dummy_prefix, model.remove_extra_spaces}) {
    hash.add(flag ? "yes" : "no");
  }
  return hash.value();
}

}  // namespace

bool is_sentencepiece(std::string_view contents) {
  if (!contents.starts_with('\n')) return false;
  try {  // the first field is the first piece
    const auto message = ProtobufReader(contents).next();
    const auto text = ProtobufReader(message->bytes).next();
    return text && text->number == 1;
  } catch (const ConfigError&) {
    return false;
  }
}

TokenizerParts sentencepiece_parts(std::string_view contents) {
  const SentencePieceModel model = parse_sentencepiece_model(contents);
  refuse_unsupported(model);
  TokenTable table = model_table(model);
  require_characters(model, table);
  const BpeOptions options = options_of(model);
  const std::vector<std::string> texts = merging_texts(model);
  const std::vector<BpeMerge> merges = ranked_merges(texts, ranks_of(model));
  Bpe bpe(with_bytes(texts, model), merges, options);

  std::vector<bool> special(model.pieces.size());
  const auto control = [&](const std::string& text) -> std::optional<std::int32_t> {
    const auto id = table.find(text);
    return id && special[static_cast<std::size_t>(*id)] ? id : std::nullopt;
  };
  for (std::size_t id = 0; id < special.size(); ++id) {
    special[id] = model.pieces[id].type == PieceType::kControl;
  }
  const SpecialTokens special_tokens{.bos = control(model.bos),
                                     .eos = control(model.eos),
                                     .begins_texts = control(model.bos).has_value()};
  TextFrame around;
  if (special_tokens.bos) around.before.push_back(*special_tokens.bos);
  return {.normalizer = normalizer_of(model),
          .pre_tokenizer = {},
          .decoder = Decoder::sentencepiece(rules_of(model)),
          .added = added_of(model),
          .around = std::move(around),
          .tokens = std::move(table),
          .special = std::move(special),
          .bpe = std::move(bpe),
          .hash = model_hash(model),
          .special_tokens = special_tokens};
}

}  // namespace strata
