// Encodes conversations. The origins that a rendering has for its characters decide twice: what is
// learnt, and what may be a special token.

#include "strata/data/conversation_encoder.h"

#include <algorithm>
#include <utility>

#include "strata/base/error.h"
#include "strata/chat/assistant_spans.h"

namespace strata {

namespace {

/// Tells whether a text is a role as templates put into their markers: small letters and _.
bool is_plain_role(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

/// Returns what the template wrote, with the roles in it, since some markers are made of a role.
std::vector<TextRange> ranges_of_template(const RenderedChat& rendered) {
  std::vector<TextRange> ranges;
  const std::string_view text = rendered.text;
  for (const TextSpan& span : rendered.spans) {
    const bool trusted = span.origin.field == ChatField::kNone ||
                         (span.origin.field == ChatField::kRole &&
                          is_plain_role(text.substr(span.begin, span.end - span.begin)));
    if (!trusted) continue;
    if (!ranges.empty() && ranges.back().end == span.begin) {
      ranges.back().end = span.end;
    } else {
      ranges.push_back({.begin = span.begin, .end = span.end});
    }
  }
  return ranges;
}

/// Returns all of a text but for ranges that are in order.
std::vector<TextRange> all_but(std::size_t size, const std::vector<TextRange>& left_out) {
  std::vector<TextRange> kept;
  std::size_t at = 0;
  for (const TextRange& range : left_out) {
    if (range.begin > at) kept.push_back({.begin = at, .end = range.begin});
    at = std::max(at, range.end);
  }
  if (size > at) kept.push_back({.begin = at, .end = size});
  return kept;
}

/// Says whether the message that a text is from lets its loss count.
bool is_learnt(const Conversation& conversation, const Origin& origin) {
  return origin.message < 0 || conversation.is_learnt(static_cast<std::size_t>(origin.message));
}

/// Returns what stands behind the last words of a message, or nothing if none of them are shown.
std::string_view behind_content(const RenderedChat& rendered, std::int32_t message) {
  std::size_t end = rendered.text.size();
  for (const TextSpan& span : rendered.spans) {
    const bool is_said = span.origin.message == message && span.origin.field == ChatField::kContent;
    if (is_said) end = span.end;
  }
  return std::string_view(rendered.text).substr(end);
}

std::string_view without_space_around(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

/// Returns the shortest conversation that has an answer, to see what a template makes of it.
Conversation question_and_answer() {
  return Conversation::of(
      {{.role = "user", .content = "a"}, {.role = "assistant", .content = "b"}});
}

}  // namespace

ChatLoss parse_chat_loss(std::string_view text) {
  if (text == "assistant") return ChatLoss::kAssistant;
  if (text == "completion") return ChatLoss::kCompletion;
  if (text == "all") return ChatLoss::kAll;
  throw ConfigError("--loss: \"" + std::string(text) +
                    "\" is not known; take assistant, completion or all");
}

bool EncodedConversation::teaches() const {
  return std::find(loss.begin(), loss.end(), 1) != loss.end();
}

ConversationEncoder::ConversationEncoder(const Tokenizer& tokenizer,
                                         const ChatTemplate& chat_template, ChatLoss loss,
                                         SpecialTextsOf special)
    : tokenizer_(tokenizer), template_(chat_template), loss_(loss), special_(special) {
  for (const NamedToken& token : tokenizer.special_tokens().named) {
    options_.other_tokens.push_back({.name = token.name, .text = token.text});
  }
}

std::vector<TextRange> ConversationEncoder::muted(const Conversation& conversation,
                                                  const RenderedChat& rendered) const {
  std::vector<TextRange> ranges;
  const auto add = [&](const std::vector<TextSpan>& spans) {
    for (const TextSpan& span : spans) {
      if (span.origin.field == ChatField::kRole || is_learnt(conversation, span.origin)) continue;
      ranges.push_back({.begin = span.begin, .end = span.end});
    }
  };
  add(rendered.spans);
  if (!ranges.empty()) add(assistant_spans(template_, conversation, options_, rendered).spans);
  std::ranges::sort(ranges, {}, &TextRange::begin);
  return ranges;
}

std::vector<TextRange> ConversationEncoder::learnt(const Conversation& conversation,
                                                   const RenderedChat& rendered) const {
  if (loss_ == ChatLoss::kAll) return all_but(rendered.text.size(), muted(conversation, rendered));
  const auto last = static_cast<std::int32_t>(conversation.size()) - 1;
  std::vector<TextRange> ranges;
  for (const TextSpan& span : assistant_spans(template_, conversation, options_, rendered).spans) {
    if (loss_ == ChatLoss::kCompletion && span.origin.message != last) continue;
    if (!is_learnt(conversation, span.origin)) continue;
    ranges.push_back({.begin = span.begin, .end = span.end});
  }
  return ranges;
}

std::vector<TextRange> ConversationEncoder::trusted(const RenderedChat& rendered) const {
  if (special_ == SpecialTextsOf::kTemplate) return ranges_of_template(rendered);
  return {{.begin = 0, .end = rendered.text.size()}};
}

EncodedConversation ConversationEncoder::encode(const Conversation& conversation,
                                                EncodeCache& cache) const {
  RenderedChat rendered = template_.render(conversation, options_);
  const std::vector<TextRange> parsed = trusted(rendered);
  const std::vector<TextRange> marked = learnt(conversation, rendered);
  EncodedConversation result;
  tokenizer_.encode_marked({.text = rendered.text, .trusted = parsed, .marked = marked}, cache,
                           result.ids, result.loss);
  result.text = std::move(rendered.text);
  return result;
}

std::vector<std::int32_t> ConversationEncoder::encode_prompt(const Conversation& conversation,
                                                             EncodeCache& cache) const {
  RenderOptions options = options_;
  options.add_generation_prompt = true;
  const RenderedChat rendered = template_.render(conversation, options);
  const std::vector<TextRange> parsed = trusted(rendered);
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> marks;
  tokenizer_.encode_marked({.text = rendered.text, .trusted = parsed, .marked = {}}, cache, ids,
                           marks);
  return ids;
}

std::vector<std::string> ConversationEncoder::markers_without_token() const {
  const Conversation probe = question_and_answer();
  std::string written;
  try {
    written = template_.render(probe, options_).text;
  } catch (const IoError&) {  // it asks for more than that; what it refuses, it says later
    return {};
  }
  std::vector<std::string> markers;
  std::string_view rest = written;
  while (true) {
    const std::size_t begin = rest.find("<|");
    if (begin == rest.npos) return markers;
    rest.remove_prefix(begin);
    const std::size_t end = rest.find("|>");
    if (end == rest.npos) return markers;
    std::string marker(rest.substr(0, end + 2));
    rest.remove_prefix(marker.size());
    const bool known = tokenizer_.id_of(marker) ||
                       std::find(markers.begin(), markers.end(), marker) != markers.end();
    if (!known) markers.push_back(std::move(marker));
  }
}

TurnEnd ConversationEncoder::turn_end() const {
  const Conversation probe = question_and_answer();
  RenderedChat rendered;
  try {
    rendered = template_.render(probe, options_);
  } catch (const IoError&) {  // it asks for more than that
    return {};
  }
  const std::string_view frame = behind_content(rendered, 1);
  EncodeCache cache;
  std::vector<std::int32_t> ids;
  tokenizer_.encode(frame, {.parse_special = true}, cache, ids);
  for (const std::int32_t id : ids) {
    const std::string_view token = tokenizer_.token(id);
    if (without_space_around(token).empty() || !tokenizer_.is_added(id)) continue;
    return {.id = id, .text = std::string(token)};
  }
  return {.id = std::nullopt, .text = std::string(without_space_around(frame))};
}

}  // namespace strata
