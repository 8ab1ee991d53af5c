// Text of a token is what it adds to the text of the tokens before it, of which a few are enough: a
// decoder joins words, but does not look far back.

#include "strata/run/model_text.h"

#include <algorithm>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/text.h"
#include "strata/base/utf8.h"
#include "strata/data/byte_tokenizer.h"
#include "strata/data/conversation_encoder.h"

namespace strata {

namespace {

/// So many tokens before a token decide its text, in any tokenizer that is known.
constexpr std::size_t kBefore = 8;
constexpr std::string_view kBytesHaveNone =
    "the model has no tokenizer and is one of bytes, which have no marks for who says what; give "
    "it a tokenizer by --tokenizer, or a prompt that is a text to go on with";
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

std::string_view common_prefix(std::string_view a, std::string_view b) {
  const auto ends = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return a.substr(0, static_cast<std::size_t>(ends.first - a.begin()));
}

}  // namespace

ModelText::ModelText(const ModelTextOptions& options)
    : folder_(options.folder), cache_(std::make_unique<EncodeCache>()) {
  const bool named = !options.tokenizer.empty();
  if (named || (!folder_.empty() && Tokenizer::file_in(folder_))) {
    tokenizer_ = Tokenizer::load(named ? options.tokenizer : options.folder);
    if (tokenizer_->vocabulary() > options.vocabulary) {
      throw ConfigError((named ? options.tokenizer : options.folder) + ": the tokenizer has " +
                        format_count(tokenizer_->vocabulary()) + " ids, and the model's " +
                        "vocabulary is " + format_count(options.vocabulary) +
                        "; name the model's own by " + options.tokenizer_key);
    }
  } else {
    bytes_ = options.vocabulary == ByteTokenizer::kVocabulary;
  }
  if (bytes_ && !options.chat_template.empty()) {
    throw ConfigError("--chat-template: " + std::string(kBytesHaveNone));
  }
  if (!options.chat_template.empty()) {
    template_ = ChatTemplate::load(options.chat_template);
  } else if (named || !folder_.empty()) {
    template_ = ChatTemplate::of_model(named ? options.tokenizer : options.folder);
  }
}

ModelText::~ModelText() = default;

std::vector<std::int32_t> ModelText::encode(std::string_view text, bool parse_special) const {
  std::vector<std::int32_t> ids;
  if (bytes_) {
    ByteTokenizer::encode(text, ids);
    return ids;
  }
  if (!tokenizer_) {
    throw ConfigError(folder_ +
                      ": has no tokenizer.json, tokenizer.model, tekken.json or .tiktoken file; "
                      "name the model's tokenizer by --tokenizer, or give prompts as tokens");
  }
  if (valid_utf8_bytes(text) != text.size()) {
    throw ConfigError("a prompt is not valid UTF-8; convert it, as with iconv");
  }
  tokenizer_->encode(text, {.parse_special = parse_special}, *cache_, ids);
  const SpecialTokens& special = tokenizer_->special_tokens();
  const bool begins = !ids.empty() && special.bos && ids.front() == *special.bos;
  if (special.begins_texts && !begins) ids.insert(ids.begin(), *special.bos);
  return ids;
}

std::vector<std::int32_t> ModelText::encode(const Conversation& conversation) const {
  require_template();
  return ConversationEncoder(*tokenizer_, *template_, ChatLoss::kAll)
      .encode_prompt(conversation, *cache_);
}

void ModelText::require_template() const {
  if (bytes_) throw ConfigError(std::string(kBytesHaveNone));
  if (tokenizer_ && template_) return;
  throw ConfigError((folder_.empty() ? "the model" : printable_name(folder_)) +
                    " has no chat template, which says how a model is talked to; name one by "
                    "--chat-template, or give a text to go on with");
}

std::string ModelText::decode(std::span<const std::int32_t> ids) const {
  if (tokenizer_) return tokenizer_->decode(ids, {.skip_special = true});
  if (!bytes_) return {};
  const std::string bytes = ByteTokenizer::decode(ids);
  std::string text;
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const std::size_t valid = valid_utf8_bytes(rest);
    text += rest.substr(0, valid);
    rest.remove_prefix(valid);
    if (rest.empty()) break;
    text += kReplacement;
    // The bytes that continue a character belong to the one that could not be read.
    rest.remove_prefix(1);
    while (!rest.empty() && (static_cast<unsigned char>(rest.front()) & 0xC0u) == 0x80u) {
      rest.remove_prefix(1);
    }
  }
  return text;
}

std::optional<std::int32_t> ModelText::end_token() const {
  if (bytes_) return ByteTokenizer::kEndOfDocument;
  return tokenizer_ ? tokenizer_->special_tokens().eos : std::nullopt;
}

std::optional<std::int32_t> ModelText::begin_token() const {
  if (bytes_) return ByteTokenizer::kEndOfDocument;
  return tokenizer_ ? tokenizer_->special_tokens().bos : std::nullopt;
}

TextStream::TextStream(const ModelText& text, std::span<const std::int32_t> prompt,
                       std::vector<std::string> stops)
    : text_(text), stops_(std::move(stops)) {
  std::erase(stops_, "");
  const std::span<const std::int32_t> end = prompt.last(std::min(kBefore, prompt.size()));
  ids_.assign(end.begin(), end.end());
  shown_ = ids_.size();
}

/// Returns the text of the tokens that have none yet; nothing while it ends in part of a character,
/// unless it is the last.
std::string TextStream::decoded(bool last) {
  if (shown_ == ids_.size()) return {};
  const std::span<const std::int32_t> ids(ids_);
  const std::string before = text_.decode(ids.first(shown_));
  const std::string all = text_.decode(ids);
  if (!last && all.ends_with(kReplacement)) return {};
  std::string added = all.substr(common_prefix(before, all).size());
  shown_ = ids_.size();
  if (shown_ > 4 * kBefore) {
    ids_.erase(ids_.begin(), ids_.end() - static_cast<std::ptrdiff_t>(kBefore));
    shown_ = kBefore;
  }
  return added;
}

/// Returns what is held and can be no part of a stop.
std::string TextStream::release(bool last) {
  std::size_t end = held_.npos;
  for (const std::string& stop : stops_) end = std::min(end, held_.find(stop));
  if (end != held_.npos) {
    stopped_ = true;
    held_.resize(end);
    return std::exchange(held_, {});
  }
  std::size_t kept = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t n = std::min(stop.size() - 1, held_.size()); !last && n > kept; --n) {
      if (held_.ends_with(std::string_view(stop).substr(0, n))) kept = n;
    }
  }
  std::string given = held_.substr(0, held_.size() - kept);
  held_.erase(0, given.size());
  return given;
}

std::string TextStream::add(std::int32_t id) {
  ids_.push_back(id);
  held_ += decoded(false);
  return release(false);
}

std::string TextStream::finish() {
  held_ += decoded(true);
  return release(true);
}

}  // namespace strata
