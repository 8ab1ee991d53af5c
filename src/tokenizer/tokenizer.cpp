// Takes a text through the parts of a tokenizer: added tokens, normalizer, added tokens that are
// normalized, pre-tokenizer, byte pair encoding, and what stands around texts.

#include "strata/tokenizer/tokenizer.h"

#include <utility>

#include "tokenizer/marked_encoder.h"
#include "tokenizer/tokenizer_file.h"
#include "tokenizer/tokenizer_parts.h"

namespace strata {

struct Tokenizer::Parts : TokenizerParts {
  explicit Parts(TokenizerParts parts) : TokenizerParts(std::move(parts)) {}
  void encode_text(std::string_view text, PreTokenizer::Place place, EncodeCache& cache,
                   std::vector<std::int32_t>& ids) const;
};

void Tokenizer::Parts::encode_text(std::string_view text, PreTokenizer::Place place,
                                   EncodeCache& cache, std::vector<std::int32_t>& ids) const {
  pre_tokenizer.apply(text, place, [&](std::string_view piece) { bpe.encode(piece, cache, ids); });
}

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

std::unique_ptr<const Tokenizer> Tokenizer::load(const std::string& path) {
  auto parts = std::make_unique<const Parts>(read_tokenizer_file(path));
  return std::unique_ptr<const Tokenizer>(new Tokenizer(std::move(parts)));
}

std::optional<std::string> Tokenizer::file_in(const std::string& folder) {
  return tokenizer_file_in(folder);
}

std::int64_t Tokenizer::vocabulary() const { return parts_->tokens.size(); }
std::uint64_t Tokenizer::hash() const { return parts_->hash; }
const SpecialTokens& Tokenizer::special_tokens() const { return parts_->special_tokens; }

std::optional<std::int32_t> Tokenizer::id_of(std::string_view token) const {
  return parts_->tokens.find(token);
}

std::string_view Tokenizer::token(std::int32_t id) const {
  if (id < 0 || id >= vocabulary()) return {};
  return parts_->tokens.text(id);
}

void Tokenizer::encode(std::string_view text, const EncodeOptions& options, EncodeCache& cache,
                       std::vector<std::int32_t>& ids) const {
  const Parts& p = *parts_;
  cache.use_for(p.hash);
  const auto special = options.parse_special ? SpecialTexts::kParsed : SpecialTexts::kOrdinary;
  if (options.add_special) ids.insert(ids.end(), p.around.before.begin(), p.around.before.end());
  std::vector<TextPart> parts;
  p.added.split(text, false, special, parts);
  for (const TextPart& part : parts) {
    if (part.token != nullptr) {
      ids.push_back(part.token->id);
      continue;
    }
    std::string buffer;
    std::vector<TextPart> inner;
    p.added.split(p.normalizer.apply(part.text, buffer), true, special, inner);
    for (std::size_t i = 0; i < inner.size(); ++i) {
      const bool is_begin = i == 0 && part.text.data() == text.data();
      if (inner[i].token != nullptr) {
        ids.push_back(inner[i].token->id);
      } else {
        p.encode_text(inner[i].text,
                      is_begin ? PreTokenizer::Place::kBegin : PreTokenizer::Place::kLater, cache,
                      ids);
      }
    }
  }
  if (options.add_special) ids.insert(ids.end(), p.around.after.begin(), p.around.after.end());
}

void Tokenizer::encode_marked(const MarkedText& text, EncodeCache& cache,
                              std::vector<std::int32_t>& ids,
                              std::vector<std::uint8_t>& marks) const {
  const Parts& p = *parts_;
  cache.use_for(p.hash);
  MarkedEncoder({p.added, p.normalizer, p.pre_tokenizer, p.bpe, p.tokens.tokens()}, cache, ids,
                marks)
      .encode(text);
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids,
                              const DecodeOptions& options) const {
  std::vector<std::string> tokens;
  for (const std::int32_t id : ids) {
    const std::string_view text = token(id);
    if (text.empty()) continue;
    if (options.skip_special && parts_->special[static_cast<std::size_t>(id)]) continue;
    tokens.emplace_back(text);
  }
  return parts_->decoder.decode(std::move(tokens));
}

}  // namespace strata
