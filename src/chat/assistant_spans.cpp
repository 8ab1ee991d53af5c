// Finds what is learnt of a rendered conversation. An assistant's turn in the text is what the
// model has to write: everything from the end of the text that asks for it up to the token that
// ends the turn. Both are found by rendering beginnings of the conversation. Where templates
// rewrite earlier turns such a beginning is not one of the whole text, so texts are not compared as
// a whole, but only what stands around the message's own characters, which are known by their
// origin.

#include "strata/chat/assistant_spans.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "chat/unicode.h"

namespace strata {

namespace {

using chat::skip_space;
using chat::skip_space_back;

/// Says whether a span is framing: the template's own text, or the name of a role.
bool is_frame(const TextSpan& span) {
  return span.origin.message < 0 || span.origin.field == ChatField::kRole;
}
/// Says whether a span is what a message says.
bool is_said_by(const TextSpan& span, std::int32_t message) {
  return span.origin.message == message && !is_frame(span);
}

std::string_view text_of(const RenderedChat& chat, std::size_t begin, std::size_t end) {
  return std::string_view(chat.text).substr(begin, end - begin);
}

/// Returns how much of their beginnings two texts share.
std::size_t shared_bytes(std::string_view a, std::string_view b) {
  const std::size_t most = std::min(a.size(), b.size());
  return static_cast<std::size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(most), b.begin()).first -
      a.begin());
}

/// Returns the marker such as "<|end|>" or "[/INST]" that holds byte at - 1 and does not end there.
std::optional<TextSpan> marker_around(std::string_view text, std::size_t at) {
  constexpr std::size_t kLongest = 64;
  for (std::size_t begin = at; begin > 0 && at - begin < kLongest; --begin) {
    const char c = text[begin - 1];
    if (c == '>' || c == ']' || c == '\n' || c == ' ') break;
    if (c != '<' && c != '[') continue;
    const std::size_t end = text.find(c == '<' ? '>' : ']', at);
    if (end == text.npos || end - at > kLongest) break;
    return TextSpan{begin - 1, end + 1};
  }
  return std::nullopt;
}

/// Returns where the first marker of a text ends, or 0 if it has none.
std::size_t end_of_first_marker(std::string_view text) {
  const std::size_t begin = text.find_first_of("<[");
  const auto marker = begin == text.npos ? std::nullopt : marker_around(text, begin + 1);
  return marker ? marker->end : 0;
}

/// Returns how much of `frame` ends a turn as `end` does: what both share, without white space at
/// its end. Where they part within a marker at the very beginning, one kind of end stands for
/// another.
std::size_t shared_end(std::string_view frame, std::string_view end) {
  std::size_t shared = shared_bytes(frame, end);
  const auto marker = shared < end.size() ? marker_around(frame, shared) : std::nullopt;
  if (marker && skip_space(frame, 0, marker->begin) == marker->begin) return marker->end;
  if (marker) shared = marker->begin;
  return skip_space_back(frame, 0, shared);
}

/// What stands around the words of a message where it is the last one. Absent: not known, since
/// the template refuses to render so far, or shows nothing of the message.
struct Frames {
  std::optional<std::string> prompt;  ///< the framing that asks for the message
  std::optional<std::string> end;     ///< the framing behind it, without white space at its end
  std::size_t said_bytes = std::string::npos;  ///< of the message
};

/// Returns the framing at the end of a text.
std::string last_frame(const RenderedChat& chat) {
  std::size_t begin = chat.text.size();
  for (std::size_t i = chat.spans.size(); i > 0 && is_frame(chat.spans[i - 1]); --i) {
    begin = chat.spans[i - 1].begin;
  }
  return chat.text.substr(begin);
}

class SpanFinder {
 public:
  SpanFinder(const ChatTemplate& chat_template, const Conversation& conversation,
             const RenderOptions& options, const RenderedChat& rendered)
      : template_(chat_template), conversation_(conversation), options_(options), chat_(rendered) {}

  /// Returns how many messages the text is made of.
  [[nodiscard]] std::size_t shown() const {
    return std::min(conversation_.size(), options_.first_messages.value_or(conversation_.size()));
  }
  /// Returns the turn of a message, or nothing if the text holds none of its words.
  std::optional<TextSpan> turn(std::int32_t message) {
    const auto first =
        std::find_if(chat_.spans.begin(), chat_.spans.end(),
                     [&](const TextSpan& span) { return is_said_by(span, message); });
    if (first == chat_.spans.end()) return std::nullopt;
    const bool last = std::none_of(first, chat_.spans.end(), [&](const TextSpan& span) {
      return span.origin.message > message;
    });
    const Frames frames = frames_of(message, last);
    const auto index = static_cast<std::size_t>(first - chat_.spans.begin());
    return TextSpan{begin_of_turn(index, frames), end_of_turn(index, frames), {.message = message}};
  }

 private:
  std::optional<RenderedChat> render(std::size_t messages, bool prompt) {
    RenderOptions options = options_;
    options.first_messages = messages;
    options.add_generation_prompt = prompt;
    try {
      return template_.render(conversation_, options);
    } catch (const IoError&) {
      return std::nullopt;
    }
  }

  /// `last` says whether nothing of a later message is in the text.
  Frames frames_of(std::int32_t message, bool last) {
    const auto number = static_cast<std::size_t>(message);
    Frames frames;
    if (const auto before = render(number, true)) frames.prompt = last_frame(*before);
    const auto with = render(number + 1, false);
    if (!with) return frames;
    std::size_t said = 0;
    for (const TextSpan& span : with->spans) {
      if (is_said_by(span, message)) said += span.end - span.begin;
    }
    if (said == 0) return frames;
    frames.said_bytes = said;
    frames.end = last_frame(*with);
    // What a template writes behind the last message of all is no end of a turn.
    const auto asked = last ? render(number + 1, true) : std::nullopt;
    const std::size_t shared = asked ? shared_end(*frames.end, last_frame(*asked)) : 0;
    frames.end->resize(shared > 0 ? shared : skip_space_back(*frames.end, 0, frames.end->size()));
    return frames;
  }

  /// Returns where the framing before a span begins.
  [[nodiscard]] std::size_t frame_begin(std::size_t span) const {
    std::size_t begin = chat_.spans[span].begin;
    for (; span > 0 && is_frame(chat_.spans[span - 1]); --span) {
      begin = chat_.spans[span - 1].begin;
    }
    return begin;
  }
  /// Returns where the framing behind a span ends.
  [[nodiscard]] std::size_t frame_end(std::size_t span) const {
    std::size_t end = chat_.spans[span].end;
    for (; span + 1 < chat_.spans.size() && is_frame(chat_.spans[span + 1]); ++span) {
      end = chat_.spans[span + 1].end;
    }
    return end;
  }

  /// The turn begins behind the prompt; what the template puts between it and the first word is
  /// written by the model, such as the beginning of a tool call.
  [[nodiscard]] std::size_t begin_of_turn(std::size_t first, const Frames& frames) const {
    const std::size_t words = chat_.spans[first].begin;
    if (!frames.prompt) return words;
    const std::size_t begin = frame_begin(first);
    const std::string_view frame = text_of(chat_, begin, words);
    std::size_t shared = shared_bytes(frame, *frames.prompt);
    if (shared < frames.prompt->size()) {
      if (const auto marker = marker_around(frame, shared)) shared = marker->begin;
    }
    // A header that the prompt did not have is the template's, not the model's.
    const auto number = static_cast<std::size_t>(chat_.spans[first].origin.message);
    const bool header = frame.find(conversation_.role(number), shared) != frame.npos;
    return header ? words : begin + shared;
  }

  /// Says whether a message has said a span's words before.
  [[nodiscard]] bool is_repeated(std::size_t first, std::size_t span) const {
    const auto words = [&](std::size_t i) {
      return text_of(chat_, chat_.spans[i].begin, chat_.spans[i].end);
    };
    for (std::size_t i = first; i < span; ++i) {
      if (chat_.spans[i].origin == chat_.spans[span].origin && words(i) == words(span)) return true;
    }
    return false;
  }

  /// Returns the number of the last span that a message says in its own turn. Another message's
  /// words end the turn; so does having said all: names of tools may be said again with results.
  /// Where the template has shortened the turn, such names are known by being repeated.
  [[nodiscard]] std::size_t last_said(std::size_t first, const Frames& frames) const {
    const std::int32_t message = chat_.spans[first].origin.message;
    std::size_t last = first;
    std::size_t before = first;  // the span before the last one
    std::size_t said = 0;
    for (std::size_t i = first; i < chat_.spans.size() && said < frames.said_bytes; ++i) {
      if (is_frame(chat_.spans[i])) continue;
      if (!is_said_by(chat_.spans[i], message)) break;
      said += chat_.spans[i].end - chat_.spans[i].begin;
      before = std::exchange(last, i);
    }
    const bool all = said >= frames.said_bytes || frames.said_bytes == std::string::npos;
    return !all && is_repeated(first, last) ? before : last;
  }

  /// The turn ends behind the token that ends it, if there is one; where it cannot be told, that is
  /// the first marker behind the words.
  [[nodiscard]] std::size_t end_of_turn(std::size_t first, const Frames& frames) const {
    const std::size_t last = last_said(first, frames);
    const std::size_t words_end = chat_.spans[last].end;
    const std::string_view frame = text_of(chat_, words_end, frame_end(last));
    if (frames.end && frames.end->empty()) return words_end;
    const std::size_t shared = frames.end ? shared_end(frame, *frames.end) : 0;
    return words_end + (shared > 0 ? shared : end_of_first_marker(frame));
  }

  const ChatTemplate& template_;
  const Conversation& conversation_;
  const RenderOptions& options_;
  const RenderedChat& chat_;
};

/// Returns what stands in generation blocks.
std::vector<TextSpan> generated_spans(const RenderedChat& rendered) {
  std::vector<TextSpan> result;
  for (const TextSpan& span : rendered.spans) {
    if (!span.origin.generated) continue;
    if (result.empty() || result.back().end != span.begin) {
      result.push_back({span.begin, span.end});
    }
    result.back().end = span.end;
    std::int32_t& message = result.back().origin.message;
    if (message < 0) message = span.origin.message;
  }
  return result;
}

}  // namespace

AssistantSpans assistant_spans(const ChatTemplate& chat_template, const Conversation& conversation,
                               const RenderOptions& options, const RenderedChat& rendered) {
  AssistantSpans result;
  if (rendered.marks_generation) result.spans = generated_spans(rendered);
  SpanFinder finder(chat_template, conversation, options, rendered);
  for (std::size_t i = 0; i < finder.shown(); ++i) {
    if (conversation.role(i) != "assistant") continue;
    const auto message = static_cast<std::int32_t>(i);
    if (!rendered.marks_generation) {
      if (const auto turn = finder.turn(message)) result.spans.push_back(*turn);
    }
    const bool found =
        std::any_of(result.spans.begin(), result.spans.end(),
                    [&](const TextSpan& span) { return span.origin.message == message; });
    if (!found) result.silent.push_back(message);
  }
  return result;
}

}  // namespace strata
