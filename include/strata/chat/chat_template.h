// Chat templates: programs in a subset of Jinja2, as models bring them along, that make one text of
// a conversation. They are run as transformers runs them, in a sandbox and within limits, so a
// template from anywhere can be rendered. docs/fine-tuning.md says what is supported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/error.h"
#include "strata/chat/conversation.h"
#include "strata/chat/rendered_chat.h"

namespace strata {

/// A template refused a conversation by raise_exception; the message has the template's words.
class ChatRefused : public IoError {
 public:
  using IoError::IoError;
};

/// A variable of a template that is a text.
struct TextVariable {
  std::string name;
  std::string text;
};

/// What a template is told beside the conversation.
struct RenderOptions {
  std::optional<std::string> bos_token{};  ///< absent: undefined in the template
  std::optional<std::string> eos_token{};
  std::vector<TextVariable> other_tokens{};     ///< special ones, by their names
  bool add_generation_prompt = false;           ///< ends with the beginning of an assistant's turn
  std::optional<std::size_t> first_messages{};  ///< renders only so many of the messages
  /// What strftime_now takes for the time, in seconds since 1970; absent: the clock's.
  std::optional<std::int64_t> now_s{};
};

/// A template, ready to render. It never changes: several threads may render by it.
class ChatTemplate {
 public:
  /// Parses a template. `name` says where it is from, for errors. Throws IoError "name:line: ..."
  /// for what is no template, and for statements, filters and tests that are not supported.
  [[nodiscard]] static ChatTemplate parse(std::string_view source, std::string name);
  /// Returns a template of this program by its name; throws ConfigError that lists the names.
  [[nodiscard]] static ChatTemplate built_in(std::string_view name);
  /// Returns the built-in template of that name, or else the one that the file holds. Throws
  /// ConfigError if there is neither, and as parse().
  [[nodiscard]] static ChatTemplate load(const std::string& name_or_file);
  /// Returns the template in a model's folder, or beside a file of it: that of chat_template.jinja,
  /// else `chat_template` of tokenizer_config.json, there the one named "default" if it has
  /// several; nothing if the model has none. Conversations with tools it renders by the one named
  /// "tool_use", in that list or in additional_chat_templates. Throws as parse(), and for a model
  /// that has that one alone.
  [[nodiscard]] static std::optional<ChatTemplate> of_model(const std::string& folder_or_file);
  /// Returns one that renders conversations with tools by `for_tools`, and others by `usual`.
  [[nodiscard]] static ChatTemplate joined(ChatTemplate usual, ChatTemplate for_tools);
  /// Returns the names of the built-in templates.
  [[nodiscard]] static std::span<const std::string_view> built_in_names();

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  /// Returns the text that was parsed, for conversations without tools if there are two.
  [[nodiscard]] const std::string& source() const;
  /// Renders a conversation. Throws ChatRefused if the template refuses it, IoError "name:line:
  /// ..." for other failures, among them more steps or memory than a rendering may take.
  [[nodiscard]] RenderedChat render(const Conversation& conversation,
                                    const RenderOptions& options) const;

 private:
  struct Data;
  explicit ChatTemplate(std::unique_ptr<const Data> data);
  std::unique_ptr<const Data> data_;
  std::unique_ptr<const Data> for_tools_;  ///< null: the same
};

}  // namespace strata
