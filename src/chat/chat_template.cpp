// Parses a template once and renders it many times: each rendering has a heap and an interpreter of
// its own.

#include "strata/chat/chat_template.h"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>
#include <vector>

#include "chat/built_in_templates.h"
#include "chat/conversation_data.h"
#include "chat/lexer.h"
#include "chat/parser.h"
#include "chat/unicode.h"
#include "strata/base/text.h"

namespace strata {

namespace {

constexpr std::size_t kMostSourceBytes = 1u << 20;
/// A template may copy a conversation so many times beyond what any template may make.
constexpr std::size_t kCopiesOfConversation = 64;

chat::Limits limits_for(const Conversation& conversation) {
  chat::Limits limits;
  limits.bytes += kCopiesOfConversation * conversation.data().bytes;
  limits.steps += conversation.data().bytes;
  return limits;
}

std::string at_line(const std::string& name, int line, std::string_view what) {
  constexpr std::size_t kMostMessage = 200;
  return name + ':' + std::to_string(line) + ": " + shortened(printable(what), kMostMessage);
}

}  // namespace

struct ChatTemplate::Data {
  std::string name;
  std::string source;
  chat::SyntaxTree tree;
  [[nodiscard]] RenderedChat render(const Conversation& conversation, const RenderOptions& options,
                                    chat::Form form) const;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Data> data) : data_(std::move(data)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

ChatTemplate ChatTemplate::parse(std::string_view source, std::string name) {
  if (source.size() > kMostSourceBytes) {
    throw IoError(name + ": has more than " + std::to_string(kMostSourceBytes >> 20) +
                  " MiB, which is no chat template");
  }
  const std::size_t valid = chat::valid_utf8_prefix(source);
  if (valid < source.size()) {
    const std::string_view before = source.substr(0, valid);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    throw IoError(at_line(name, static_cast<int>(line), "is no UTF-8; save it as UTF-8"));
  }
  try {
    chat::SyntaxTree tree = chat::parse_template(source);
    return ChatTemplate(std::make_unique<const Data>(
        Data{.name = std::move(name), .source = std::string(source), .tree = std::move(tree)}));
  } catch (const chat::SyntaxError& error) {
    throw IoError(at_line(name, error.line(), error.what()));
  }
}

ChatTemplate ChatTemplate::joined(ChatTemplate usual, ChatTemplate for_tools) {
  usual.for_tools_ = std::move(for_tools.data_);
  return usual;
}

std::span<const std::string_view> ChatTemplate::built_in_names() {
  static constexpr auto kNames = [] {
    std::array<std::string_view, chat::kBuiltInTemplates.size()> names;
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = chat::kBuiltInTemplates[i].name;
    return names;
  }();
  return kNames;
}

ChatTemplate ChatTemplate::built_in(std::string_view name) {
  std::string names;
  for (const chat::BuiltInTemplate& known : chat::kBuiltInTemplates) {
    if (known.name == name) return parse(known.source, std::string(name));
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  throw ConfigError("there is no chat template '" + shortened(printable(name)) +
                    "'; those built in are " + names);
}

const std::string& ChatTemplate::source() const { return data_->source; }

/// Renders a conversation in one of its forms; throws as ChatTemplate::render.
RenderedChat ChatTemplate::Data::render(const Conversation& conversation,
                                        const RenderOptions& options, chat::Form form) const {
  chat::Heap heap(limits_for(conversation));
  chat::Interpreter interpreter(tree, heap);
  try {
    const chat::Variables variables = chat::variables_of(heap, conversation.data(), options, form);
    chat::TracedText text = interpreter.run(chat::make_globals(heap, options.now_s), variables);
    std::vector<TextSpan> spans = text.spans();
    return {.text = std::move(text).take_bytes(),
            .spans = std::move(spans),
            .marks_generation = tree.has_generation};
  } catch (const chat::RaisedByTemplate& error) {
    throw ChatRefused(
        at_line(name, interpreter.line(),
                std::string("the template refuses the conversation: ") + error.what()));
  } catch (const chat::TemplateFailure& error) {
    throw IoError(at_line(name, interpreter.line(), error.what()));
  }
}

RenderedChat ChatTemplate::render(const Conversation& conversation,
                                  const RenderOptions& options) const {
  using chat::Form;
  const bool has_tools = !conversation.data().tools.is_null();
  const Data& data = has_tools && for_tools_ ? *for_tools_ : *data_;
  if (!conversation.data().has_other_forms) {
    return data.render(conversation, options, Form::kAsWritten);
  }
  // What cannot render one form may want another. Of what can render none, the template's own words
  // say most; else the first failure.
  std::exception_ptr refused;
  std::exception_ptr failed;
  for (const Form form : {Form::kAsWritten, Form::kContentTexts, Form::kAllTexts}) {
    try {
      return data.render(conversation, options, form);
    } catch (const ChatRefused&) {
      if (!refused) refused = std::current_exception();
    } catch (const IoError&) {
      if (!failed) failed = std::current_exception();
    }
  }
  std::rethrow_exception(refused ? refused : failed);
}

}  // namespace strata
