// What a message and a tool of a data set hold, checked and tidied before a template sees it, so
// that nothing becomes training text that its author did not write as text.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

namespace strata::chat {

/// Drops null members of a message and of its tool calls, but for "content". Throws IoError, which
/// begins with `where`, if a content or a reasoning is of a kind that no template has words for, or
/// if the arguments of a call are a text that is no JSON object.
void tidy_message(nlohmann::ordered_json& message, const std::string& where);
/// Drops null members of tools and reads those that are stored as text. Throws IoError, which
/// begins with `where`, if the text is no list.
void tidy_tools(nlohmann::ordered_json& tools, const std::string& where);

/// Returns whether the loss of a message may count, as its "weight" and "train" say. Throws
/// IoError, which begins with `where`, for other values than 0, 1, true and false.
[[nodiscard]] bool is_learnt(const nlohmann::ordered_json& message, const std::string& where);
/// Says whether a template may be given a tidied message in several forms (see Form).
[[nodiscard]] bool has_other_forms(const nlohmann::ordered_json& message);
/// Says whether a value is a list of parts, all of type "text".
[[nodiscard]] bool is_list_of_texts(const nlohmann::ordered_json& content);
/// Returns the arguments of a call, read if they are stored as text.
[[nodiscard]] nlohmann::ordered_json arguments_as_object(const nlohmann::ordered_json& arguments);
/// Returns the place in a tool call that has its arguments, or null.
[[nodiscard]] nlohmann::ordered_json* arguments_of(nlohmann::ordered_json& call);

}  // namespace strata::chat
