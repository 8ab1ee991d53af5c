// Turns text into ids and back, as the file of a model's tokenizer says: the same ids as the
// library makes that the file is from (`tokenizers`, SentencePiece, tiktoken, mistral_common). What
// a file asks for and strata does not have is refused by name when it is loaded, and never
// approximated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/tokenizer/encode_cache.h"

namespace strata {

struct EncodeOptions {
  /// Take the texts of special tokens, such as <|end_of_text|>, for these tokens. Text from
  /// others should not be able to do that.
  bool parse_special = false;
  /// Add the special tokens that the file's post-processor puts around a text.
  bool add_special = false;
};

/// Bytes [begin, end) of a text, at whole characters.
struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// A text put together from several hands. Ranges are in order and do not overlap.
struct MarkedText {
  std::string_view text;               ///< valid UTF-8
  std::span<const TextRange> trusted;  ///< a special token is parsed if it lies in one of these
  std::span<const TextRange> marked;   ///< whose ids the caller wants to know
};

struct DecodeOptions {
  bool skip_special = false;  ///< leave special tokens out
};

/// A special token by the name that transformers gives it to chat templates: "pad_token".
struct NamedToken {
  std::string name;
  std::string text;  ///< perhaps no token of the vocabulary
  bool operator==(const NamedToken&) const = default;
};

/// The tokens around texts, as a tokenizer's files name them: tokenizer_config.json and
/// special_tokens_map.json, else the file itself, else what its post-processor puts around texts.
struct SpecialTokens {
  std::optional<std::int32_t> bos{};  ///< bos_token
  std::optional<std::int32_t> eos{};  ///< eos_token
  /// Whether texts begin with the bos token: add_bos_token, or what the file puts around texts.
  bool begins_texts = false;
  /// All that are named, bos and eos among them if they are, as chat templates get them.
  std::vector<NamedToken> named{};
};

/// A tokenizer; immutable, so many threads may use it, each with a cache of its own.
class Tokenizer {
 public:
  /// Loads a file, or that of a folder, with the tokenizer_config.json, special_tokens_map.json and
  /// added_tokens.json that lie beside it. Throws IoError for what cannot be read, and ConfigError
  /// naming the file and the place in it for what is wrong or not supported.
  [[nodiscard]] static std::unique_ptr<const Tokenizer> load(const std::string& path);
  /// Returns the file that load() takes of a folder: tokenizer.json, tekken.json, tokenizer.model,
  /// or the one whose name ends in .tiktoken; none if there is none of them.
  [[nodiscard]] static std::optional<std::string> file_in(const std::string& folder);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Returns the number of ids: one more than the largest.
  [[nodiscard]] std::int64_t vocabulary() const;
  /// Returns a hash of all that ids depend on.
  [[nodiscard]] std::uint64_t hash() const;
  [[nodiscard]] const SpecialTokens& special_tokens() const;
  [[nodiscard]] std::optional<std::int32_t> id_of(std::string_view token) const;
  /// Returns a token as the file writes it; an empty text where the id is no token's.
  [[nodiscard]] std::string_view token(std::int32_t id) const;
  /// Tells whether decode() leaves an id out on request.
  [[nodiscard]] bool is_special(std::int32_t id) const;
  /// Tells whether an id is that of an added token, special or not, which is found in texts as a
  /// whole.
  [[nodiscard]] bool is_added(std::int32_t id) const;

  /// Appends the ids of a text, which must be valid UTF-8.
  void encode(std::string_view text, const EncodeOptions& options, EncodeCache& cache,
              std::vector<std::int32_t>& ids) const;
  /// Appends the ids of a text, without special tokens around it, and for each id a byte: 1 if the
  /// token has at least one marked character, so that one across a border is marked, else 0.
  /// `marks` has as many bytes as there are ids before.
  void encode_marked(const MarkedText& text, EncodeCache& cache, std::vector<std::int32_t>& ids,
                     std::vector<std::uint8_t>& marks) const;
  /// Returns the text of ids. Bytes that are not UTF-8 become U+FFFD; ids of no token are left out.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids,
                                   const DecodeOptions& options = {}) const;

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace strata
