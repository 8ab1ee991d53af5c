// Reads the message of a SentencePiece model. The numbers are those of the fields in
// sentencepiece_model.proto.

#include "tokenizer/sentencepiece_model.h"

#include <cmath>

#include "strata/base/error.h"
#include "tokenizer/protobuf_reader.h"

namespace strata {
namespace {

using Field = ProtobufReader::Field;

/// Calls `on_field` for each field of a message.
template <class OnField>
void read_message(std::string_view message, const OnField& on_field) {
  ProtobufReader reader(message);
  while (const auto field = reader.next()) on_field(*field);
}

SentencePieceModel::Piece read_piece(std::string_view message, std::size_t id) {
  SentencePieceModel::Piece piece;
  read_message(message, [&](const Field& field) {
    if (field.number == 1) piece.text = field.bytes;
    if (field.number == 2) piece.score = float_of(field);
    if (field.number != 3) return;
    if (field.integer < 1 || field.integer > 6) {
      throw ConfigError("piece " + std::to_string(id) + " has an unknown type, " +
                        std::to_string(field.integer));
    }
    piece.type = static_cast<PieceType>(field.integer);
  });
  if (piece.text.empty()) throw ConfigError("piece " + std::to_string(id) + " is empty");
  if (!std::isfinite(piece.score)) {
    throw ConfigError("the score of piece " + std::to_string(id) + " is no number");
  }
  return piece;
}

void read_trainer(std::string_view message, SentencePieceModel& model) {
  read_message(message, [&](const Field& field) {
    switch (field.number) {
      case 3: model.type = static_cast<SentencePieceModel::Type>(field.integer); break;
      case 24: model.space_is_suffix = field.integer != 0; break;
      case 35: model.byte_fallback = field.integer != 0; break;
      case 44: model.unknown_surface = field.bytes; break;
      case 46: model.bos = field.bytes; break;
      case 47: model.eos = field.bytes; break;
      default: break;
    }
  });
}

void read_normalizer(std::string_view message, SentencePieceModel& model) {
  read_message(message, [&](const Field& field) {
    switch (field.number) {
      case 1: model.normalizer = field.bytes; break;
      case 2: model.normalizer_map = field.bytes; break;
      case 3: model.add_dummy_prefix = field.integer != 0; break;
      case 4: model.remove_extra_spaces = field.integer != 0; break;
      case 5: model.escape_spaces = field.integer != 0; break;
      default: break;
    }
  });
}

}  // namespace

SentencePieceModel parse_sentencepiece_model(std::string_view contents) {
  SentencePieceModel model;
  read_message(contents, [&](const Field& field) {
    switch (field.number) {
      case 1: model.pieces.push_back(read_piece(field.bytes, model.pieces.size())); break;
      case 2: read_trainer(field.bytes, model); break;
      case 3: read_normalizer(field.bytes, model); break;
      case 5:
        read_message(field.bytes, [&](const Field& inner) {
          if (inner.number == 2) model.denormalizer_map = inner.bytes;
        });
        break;
      default: break;
    }
  });
  return model;
}

}  // namespace strata
