// Encodes a text with marked ranges. Most pieces are marked as a whole or not at all. Only where a
// border is within a piece the bytes of its tokens are counted; if they are not those of the piece,
// as with unknown characters, all of its tokens are marked.

#include "tokenizer/marked_encoder.h"

#include <algorithm>

#include "tokenizer/byte_level.h"
#include "tokenizer/text_ranges.h"

namespace strata {

namespace {

/// Returns where the character that has byte `at` begins. A character that normalizing composes of
/// both sides of a border belongs to the later one.
std::size_t character_at(std::string_view text, std::size_t at) {
  at = std::min(at, text.size());
  while (at > 0 && at < text.size() && (text[at] & 0xc0) == 0x80) --at;
  return at;
}

}  // namespace

void MarkedEncoder::add(std::int32_t id, bool marked) {
  ids_.push_back(id);
  marks_.push_back(marked ? 1 : 0);
}

void MarkedEncoder::encode(const MarkedText& in) {
  TextBudget budget(in.text.size());
  std::vector<TextPart> parts;
  parts_.added.split(in.text, false, in.trusted, parts);
  for (const TextPart& part : parts) {
    const auto begin = static_cast<std::size_t>(part.text.data() - in.text.data());
    const std::size_t end = begin + part.text.size();
    if (part.token != nullptr) {
      add(part.token->id, touches(in.marked, begin, end));
      continue;
    }
    const Ranges trusted = ranges_within(in.trusted, begin, end);
    const Ranges marked = ranges_within(in.marked, begin, end);
    add_text({.text = part.text, .trusted = trusted, .marked = marked},
             begin == 0 ? PreTokenizer::Place::kBegin : PreTokenizer::Place::kLater, budget);
  }
}

void MarkedEncoder::add_text(const MarkedText& in, PreTokenizer::Place place, TextBudget& budget) {
  std::string buffer;
  const std::string_view text = parts_.normalizer.apply(in.text, buffer, budget);
  const auto normalized = [&](std::size_t at) {
    if (at == 0 || at == in.text.size()) return at == 0 ? 0 : text.size();
    std::string before;
    TextBudget again(in.text.size());
    return character_at(text, parts_.normalizer.apply(in.text.substr(0, at), before, again).size());
  };
  const Ranges trusted = ranges_within(in.trusted, 0, in.text.size(), normalized);
  const Ranges marked = ranges_within(in.marked, 0, in.text.size(), normalized);
  std::vector<TextPart> parts;
  parts_.added.split(text, true, trusted, parts);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto begin = static_cast<std::size_t>(parts[i].text.data() - text.data());
    const std::size_t end = begin + parts[i].text.size();
    if (parts[i].token != nullptr) {
      add(parts[i].token->id, touches(marked, begin, end));
    } else {
      add_words(parts[i].text, i == 0 ? place : PreTokenizer::Place::kLater,
                ranges_within(marked, begin, end));
    }
  }
}

void MarkedEncoder::add_words(std::string_view text, PreTokenizer::Place place,
                              const Ranges& marked) {
  const auto bytes_in_pieces = [&](std::size_t at) {
    std::size_t bytes = 0;
    if (at == 0) return bytes;
    parts_.pre_tokenizer.apply(text.substr(0, at), place,
                               [&](std::string_view piece) { bytes += piece.size(); });
    return bytes;
  };
  const Ranges in_pieces = ranges_within(marked, 0, text.size(), bytes_in_pieces);
  std::size_t at = 0;
  parts_.pre_tokenizer.apply(text, place, [&](std::string_view piece) {
    const std::size_t first = ids_.size();
    parts_.bpe.encode(piece, cache_, ids_);
    mark_piece(first, at, at + piece.size(), in_pieces);
    at += piece.size();
  });
}

void MarkedEncoder::mark_piece(std::size_t first_id, std::size_t begin, std::size_t end,
                               const Ranges& marked) {
  const bool whole = touches(marked, begin, end);
  marks_.resize(ids_.size(), whole ? 1 : 0);
  if (!whole || holds(marked, begin, end)) return;
  std::size_t bytes = 0;
  for (std::size_t i = first_id; i < ids_.size(); ++i) bytes += bytes_of(ids_[i]);
  if (bytes != end - begin) return;
  for (std::size_t i = first_id; i < ids_.size(); ++i) {
    const std::size_t next = begin + bytes_of(ids_[i]);
    marks_[i] = touches(marked, begin, next) ? 1 : 0;
    begin = next;
  }
}

std::size_t MarkedEncoder::bytes_of(std::int32_t id) const {
  const std::string& token = parts_.tokens[static_cast<std::size_t>(id)];
  if (parts_.pre_tokenizer.is_byte_level()) {
    return bytes_of_byte_level(token).value_or("").size();
  }
  const bool is_byte = token.size() == 6 && token.starts_with("<0x") && token.back() == '>';
  return is_byte ? 1 : token.size();
}

}  // namespace strata
