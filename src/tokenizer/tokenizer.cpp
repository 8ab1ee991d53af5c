// Takes a text through the parts of a tokenizer: added tokens, normalizer, added tokens that are
// normalized, pre-tokenizer, byte pair encoding, and what stands around texts.

#include "strata/tokenizer/tokenizer.h"

#include <algorithm>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/stop_signals.h"
#include "tokenizer/marked_encoder.h"
#include "tokenizer/tokenizer_file.h"
#include "tokenizer/tokenizer_parts.h"

namespace strata {

struct Tokenizer::Parts : TokenizerParts {
  explicit Parts(TokenizerParts parts) : TokenizerParts(std::move(parts)) {}
  void encode(std::string_view text, const EncodeOptions& options, EncodeCache& cache,
              std::vector<std::int32_t>& ids) const;
  void encode_text(std::string_view text, PreTokenizer::Place place, EncodeCache& cache,
                   std::vector<std::int32_t>& ids) const;
  /// Returns what `work` does; what it refuses gets the file's name.
  template <class Work>
  auto naming_file(const Work& work) const {
    try {
      return work();
    } catch (const ConfigError& error) {
      throw ConfigError(file + ": " + error.what());
    }
  }
};

void Tokenizer::Parts::encode_text(std::string_view text, PreTokenizer::Place place,
                                   EncodeCache& cache, std::vector<std::int32_t>& ids) const {
  constexpr std::size_t kBytesBetweenLooks = std::size_t{1} << 20;
  std::size_t bytes = 0;
  pre_tokenizer.apply(text, place, [&](std::string_view piece) {
    bpe.encode(piece, cache, ids);
    bytes += piece.size();
    if (bytes < kBytesBetweenLooks) return;
    throw_if_stopped();
    bytes = 0;
  });
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

bool Tokenizer::is_special(std::int32_t id) const {
  return id >= 0 && id < vocabulary() && parts_->special[static_cast<std::size_t>(id)];
}

bool Tokenizer::is_added(std::int32_t id) const {
  return std::ranges::find(parts_->added.tokens(), id, &AddedToken::id) !=
         parts_->added.tokens().end();
}

void Tokenizer::encode(std::string_view text, const EncodeOptions& options, EncodeCache& cache,
                       std::vector<std::int32_t>& ids) const {
  parts_->naming_file([&] { parts_->encode(text, options, cache, ids); });
}

void Tokenizer::Parts::encode(std::string_view text, const EncodeOptions& options,
                              EncodeCache& cache, std::vector<std::int32_t>& ids) const {
  cache.use_for(hash);
  const auto texts = options.parse_special ? SpecialTexts::kParsed : SpecialTexts::kOrdinary;
  if (options.add_special) ids.insert(ids.end(), around.before.begin(), around.before.end());
  TextBudget budget(text.size());
  std::vector<TextPart> parts;
  added.split(text, false, texts, parts);
  for (const TextPart& part : parts) {
    if (part.token != nullptr) {
      ids.push_back(part.token->id);
      continue;
    }
    std::string buffer;
    std::vector<TextPart> inner;
    added.split(normalizer.apply(part.text, buffer, budget), true, texts, inner);
    for (std::size_t i = 0; i < inner.size(); ++i) {
      const bool is_begin = i == 0 && part.text.data() == text.data();
      if (inner[i].token != nullptr) {
        ids.push_back(inner[i].token->id);
      } else {
        encode_text(inner[i].text,
                    is_begin ? PreTokenizer::Place::kBegin : PreTokenizer::Place::kLater, cache,
                    ids);
      }
    }
  }
  if (options.add_special) ids.insert(ids.end(), around.after.begin(), around.after.end());
}

void Tokenizer::encode_marked(const MarkedText& text, EncodeCache& cache,
                              std::vector<std::int32_t>& ids,
                              std::vector<std::uint8_t>& marks) const {
  const Parts& p = *parts_;
  cache.use_for(p.hash);
  MarkedEncoder encoder({p.added, p.normalizer, p.pre_tokenizer, p.bpe, p.tokens.tokens()}, cache,
                        ids, marks);
  p.naming_file([&] { encoder.encode(text); });
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
  return parts_->naming_file([&] { return parts_->decoder.decode(std::move(tokens)); });
}

}  // namespace strata
