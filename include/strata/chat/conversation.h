// A conversation is a list of messages with what belongs to them. Data sets hold it as one JSON
// value, which is parsed here; a program that talks makes it of the texts that were said. Templates
// render it, and it never changes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

/// A message that is a text: who says it, and what. Both are valid UTF-8.
struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant" or another one that the template knows
  std::string content;
};

class Conversation {
 public:
  /// Makes a conversation of messages that are texts, without tools or documents. It renders as the
  /// same list of messages does that parse() reads from JSON.
  [[nodiscard]] static Conversation of(const std::vector<ChatMessage>& messages);
  /// Parses a list of messages, or an object with "messages" and, if it has them, "tools",
  /// "documents" and "chat_template_kwargs", whose entries are variables of the template. A message
  /// is an object with a "role"; its "weight", 0 or 1, or "train", true or false, may say whether
  /// its loss counts. Instead of "messages" there may be "prompt" and "completion":
  /// lists of messages, or texts of a user and of an assistant. Other keys of the object are
  /// ignored, as data sets have many. Throws IoError that begins with `name`, which says where the
  /// text stands.
  [[nodiscard]] static Conversation parse(std::string_view json, const std::string& name);

  Conversation(Conversation&&) noexcept;
  Conversation& operator=(Conversation&&) noexcept;
  ~Conversation();

  /// Returns how many messages there are.
  [[nodiscard]] std::size_t size() const;
  /// Returns the role of a message, which is below size().
  [[nodiscard]] const std::string& role(std::size_t message) const;

  /// Returns whether the loss of a message may count: not if its "weight" is 0 or its "train"
  /// false.
  [[nodiscard]] bool is_learnt(std::size_t message) const;

  struct Data;  ///< the parsed JSON, for the renderer alone
  [[nodiscard]] const Data& data() const { return *data_; }

 private:
  explicit Conversation(std::unique_ptr<const Data> data);
  std::unique_ptr<const Data> data_;
};

}  // namespace strata
