// Encodes a text of which ranges are marked, and tells which of its ids have marked text. The
// ranges go through the same steps as the text: each of their ends is where the text before it ends
// when it takes the step alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "strata/tokenizer/encode_cache.h"
#include "strata/tokenizer/tokenizer.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"

namespace strata {

class MarkedEncoder {
 public:
  /// What texts go through; all of it outlives the encoder.
  struct Parts {
    const AddedTokens& added;
    const Normalizer& normalizer;
    const PreTokenizer& pre_tokenizer;
    const Bpe& bpe;
    const std::vector<std::string>& tokens;  ///< by id, as the file writes them
  };

  MarkedEncoder(const Parts& parts, EncodeCache& cache, std::vector<std::int32_t>& ids,
                std::vector<std::uint8_t>& marks)
      : parts_(parts), cache_(cache), ids_(ids), marks_(marks) {}

  void encode(const MarkedText& in);

 private:
  using Ranges = std::vector<TextRange>;

  void add(std::int32_t id, bool marked);
  void add_text(const MarkedText& in, PreTokenizer::Place place, TextBudget& budget);
  void add_words(std::string_view text, PreTokenizer::Place place, const Ranges& marked);
  void mark_piece(std::size_t first_id, std::size_t begin, std::size_t end, const Ranges& marked);
  [[nodiscard]] std::size_t bytes_of(std::int32_t id) const;

  Parts parts_;
  EncodeCache& cache_;
  std::vector<std::int32_t>& ids_;
  std::vector<std::uint8_t>& marks_;
};

}  // namespace strata
