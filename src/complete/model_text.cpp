// Text of a token is what it adds to the text of the tokens before it, of which a few are enough: a
// decoder joins words, but does not look far back.

#include "strata/complete/model_text.h"

#include <algorithm>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/text.h"
#include "strata/base/utf8.h"
#include "strata/data/byte_tokenizer.h"

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
  if (tokenizer_ && template_) {
    turn_end_ = ConversationEncoder(*tokenizer_, *template_, ChatLoss::kAll).turn_end();
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

std::vector<std::int32_t> ModelText::encode(const Conversation& conversation,
                                            SpecialTextsOf special) const {
  require_template();
  return ConversationEncoder(*tokenizer_, *template_, ChatLoss::kAll, special)
      .encode_prompt(conversation, *cache_);
}

EncodedConversation ModelText::encode_answers(const Conversation& conversation) const {
  require_template();
  return ConversationEncoder(*tokenizer_, *template_, ChatLoss::kAssistant)
      .encode(conversation, *cache_);
}

void ModelText::require_template() const {
  if (bytes_) throw ConfigError(std::string(kBytesHaveNone));
  if (has_template()) return;
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

std::string_view ModelText::special_text(std::int32_t id) const {
  return tokenizer_ && tokenizer_->is_special(id) ? tokenizer_->token(id) : std::string_view();
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

/// Returns where what is held may be cut: before the first stop, else before what may begin one.
std::size_t TextStream::cut_of(std::string_view text, bool last, bool& found) const {
  std::size_t end = text.npos;
  for (const std::string& stop : stops_) end = std::min(end, text.find(stop));
  found = end != text.npos;
  if (found) return end;
  std::size_t kept = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t n = std::min(stop.size() - 1, text.size()); !last && n > kept; --n) {
      if (text.ends_with(std::string_view(stop).substr(0, n))) kept = n;
    }
  }
  return text.size() - kept;
}

/// Returns what is held and can be no part of a stop, neither with the texts of special tokens nor
/// without them.
std::string TextStream::release(bool last) {
  std::string given;
  std::vector<std::size_t> places;  // of its bytes in what is held
  for (std::size_t i = 0; i < held_.size(); ++i) {
    if (!given_[i]) continue;
    given += held_[i];
    places.push_back(i);
  }
  places.push_back(held_.size());
  bool found_in_all = false;
  bool found_in_given = false;
  const std::size_t of_all = cut_of(held_, last, found_in_all);
  const std::size_t of_given = places[cut_of(given, last, found_in_given)];
  stopped_ = found_in_all || found_in_given;
  if (found_in_all != found_in_given) return take(found_in_all ? of_all : of_given);
  return take(std::min(of_all, of_given));
}

/// Holds a text; what is not given out is there for the stops alone.
void TextStream::hold(std::string_view text, bool given) {
  held_ += text;
  given_.insert(given_.end(), text.size(), given);
}

/// Takes so many bytes of what is held, and returns those that are given out.
std::string TextStream::take(std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) {
    if (given_[i]) text += held_[i];
  }
  held_.erase(0, bytes);
  given_.erase(given_.begin(), given_.begin() + static_cast<std::ptrdiff_t>(bytes));
  return text;
}

std::string TextStream::add(std::int32_t id) {
  ids_.push_back(id);
  hold(decoded(false), true);
  hold(text_.special_text(id), false);
  return release(false);
}

std::string TextStream::finish() {
  hold(decoded(true), true);
  return release(true);
}

}  // namespace strata
