// A record is read as JSON once for its settings. The chat layer parses a conversation in it again,
// since it keeps numbers and members that settings have no use for.

#include "strata/complete/prompts.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "complete/json_record.h"
#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/text.h"
#include "strata/base/utf8.h"

namespace strata {
namespace {

using Json = JsonRecord::Json;

std::vector<std::int32_t> ids_of_conversation(const PromptReading& how,
                                              const Conversation& conversation) {
  return how.text.encode(conversation,
                         how.parse_special ? SpecialTextsOf::kAll : SpecialTextsOf::kTemplate);
}

/// Returns the conversation in which a user says `text`.
Conversation asking(const PromptReading& how, const std::string& text) {
  if (valid_utf8_bytes(text) != text.size()) {
    throw ConfigError("the prompt is not valid UTF-8; convert it, as with iconv");
  }
  std::vector<ChatMessage> messages;
  if (!how.system.empty()) messages.push_back({.role = "system", .content = how.system});
  messages.push_back({.role = "user", .content = text});
  return Conversation::of(messages);
}

std::vector<std::int32_t> ids_of_text(const PromptReading& how, const std::string& text,
                                      const std::string& where) {
  try {
    if (!how.chat) return how.text.encode(text, how.parse_special);
    return ids_of_conversation(how, asking(how, text));
  } catch (const Error& error) {
    throw ConfigError(where + ": " + error.what());
  }
}

std::vector<std::int32_t> ids_of_record(const PromptReading& how, const JsonRecord& record,
                                        const std::string& json) {
  const Json* const prompt = record.find("prompt");
  const bool messages = record.find("messages") != nullptr;
  const bool tokens = record.find("tokens") != nullptr;
  if ((prompt != nullptr ? 1 : 0) + (messages ? 1 : 0) + (tokens ? 1 : 0) != 1) {
    throw ConfigError(record.where() +
                      ": a record has one of \"prompt\", \"messages\" and \"tokens\"");
  }
  if (tokens) return record.tokens();
  if (prompt != nullptr) {
    if (!prompt->is_string()) record.fail("prompt", "a text");
    return ids_of_text(how, prompt->get<std::string>(), record.where());
  }
  try {
    return ids_of_conversation(how, Conversation::parse(json, record.where()));
  } catch (const IoError& error) {  // it names the place itself
    throw ConfigError(error.what());
  } catch (const ConfigError& error) {
    throw ConfigError(record.where() + ": " + error.what());
  }
}

}  // namespace

void end_answer(PromptSettings& settings, const TurnEnd& end) {
  if (end.id) {
    settings.end_tokens.push_back(*end.id);
  } else if (!end.text.empty()) {
    settings.stops.push_back(end.text);
  }
}

GenerateRequest request_of(const Prompt& prompt, std::int64_t sample) {
  return {.prompt = prompt.ids,
          .sampling = prompt.settings.sampling,
          .most_tokens = prompt.settings.most_tokens,
          .sample = sample};
}

void complete_settings(Prompt& prompt, std::int64_t positions) {
  constexpr std::int64_t kMostTokens = 256;
  if (prompt.settings.most_tokens == 0) {
    prompt.settings.most_tokens =
        std::clamp<std::int64_t>(positions - std::ssize(prompt.ids), 1, kMostTokens);
  }
  std::string problem = prompt.settings.sampling.problem();
  const auto require = [&](const char* what, std::int64_t number, std::int64_t most) {
    if (!problem.empty() || (number >= 1 && number <= most)) return;
    problem = std::string(what) + " must be 1 to " + format_count(most);
  };
  require("max_tokens", prompt.settings.most_tokens, std::numeric_limits<std::int32_t>::max());
  require("samples", prompt.settings.samples, kMostSamples);
  if (problem.empty() && prompt.settings.samples > 1 && prompt.settings.sampling.temperature == 0) {
    problem = "samples are all the same at temperature 0; set a temperature";
  }
  if (!problem.empty()) throw ConfigError(prompt.where + ": " + problem);
}

Prompt read_text_prompt(const PromptReading& how, const std::string& text,
                        const std::string& where) {
  Prompt prompt{.id = "1",
                .where = where,
                .ids = ids_of_text(how, text, where),
                .settings = how.settings,
                .is_conversation = how.chat};
  if (prompt.is_conversation) end_answer(prompt.settings, how.answer_end);
  complete_settings(prompt, how.positions);
  return prompt;
}

Prompt read_prompt_record(const PromptReading& how, const std::string& json, std::string where,
                          std::int64_t line) {
  const JsonRecord record(json, std::move(where));
  Prompt prompt{.id = record.id(line),
                .where = record.where(),
                .ids = ids_of_record(how, record, json),
                .settings = how.settings,
                .is_conversation = record.find("messages") != nullptr ||
                                   (how.chat && record.find("prompt") != nullptr)};
  PromptSettings& settings = prompt.settings;
  record.read("max_tokens", settings.most_tokens);
  if (settings.most_tokens < 1 && record.find("max_tokens") != nullptr) {
    record.fail("max_tokens", "at least 1");
  }
  record.read("temperature", settings.sampling.temperature);
  record.read("top_k", settings.sampling.top_k);
  record.read("top_p", settings.sampling.top_p);
  record.read("min_p", settings.sampling.min_p);
  record.read("repeat_penalty", settings.sampling.repeat_penalty);
  record.read("samples", settings.samples);
  record.read("stop", settings.stops);
  if (prompt.is_conversation) end_answer(settings, how.answer_end);
  auto seed = static_cast<std::int64_t>(settings.sampling.seed);
  record.read("seed", seed);
  settings.sampling.seed = static_cast<std::uint64_t>(seed);
  complete_settings(prompt, how.positions);
  return prompt;
}

}  // namespace strata
