// A record is read as JSON once; a conversation in it is parsed again by the chat layer.

#include "commands/prompts.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/json.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

/// The members of a record, whose errors name them.
class RecordReader {
 public:
  RecordReader(const std::string& json, std::string where) : where_(std::move(where)) {
    try {
      json_ = parse_json<Json>(json);
    } catch (const Json::exception& error) {
      throw ConfigError(where_ + ": is not JSON: " + json_problem(error));
    } catch (const ConfigError& error) {
      throw ConfigError(where_ + ": " + error.what());
    }
    if (!json_.is_object())
      throw ConfigError(where_ + ": a record is an object, not " + shown(json_));
  }

  [[nodiscard]] const Json* find(const char* key) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  [[noreturn]] void fail(const char* key, const std::string& wanted) const {
    throw ConfigError(where_ + ": " + key + " is " + shown(*find(key)) + ", and " + wanted +
                      " is expected");
  }
  void read(const char* key, double& value) const {
    const Json* const found = find(key);
    if (found == nullptr) return;
    if (!found->is_number()) fail(key, "a number");
    value = found->get<double>();
  }
  void read(const char* key, std::int64_t& value) const {
    const Json* const found = find(key);
    if (found == nullptr) return;
    const bool fits = found->is_number_integer() &&
                      (!found->is_number_unsigned() ||
                       found->get<std::uint64_t>() <=
                           static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
    if (!fits) fail(key, "a whole number");
    value = found->get<std::int64_t>();
  }
  void read(const char* key, std::vector<std::string>& texts) const {
    const Json* const found = find(key);
    if (found == nullptr) return;
    texts.clear();
    for (const Json& text : found->is_array() ? *found : Json::array({*found})) {
      if (!text.is_string()) fail(key, "a text or a list of texts");
      texts.push_back(text.get<std::string>());
    }
  }
  [[nodiscard]] std::string id(std::int64_t line) const {
    const Json* const found = find("id");
    if (found == nullptr) return std::to_string(line);
    if (found->is_string()) return found->get<std::string>();
    if (!found->is_number_integer()) fail("id", "a text or a whole number");
    return found->dump();
  }
  [[nodiscard]] std::vector<std::int32_t> tokens() const {
    const Json& found = *find("tokens");
    if (!found.is_array()) fail("tokens", "a list of ids");
    std::vector<std::int32_t> ids;
    for (const Json& id : found) {
      if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
        fail("tokens", "a list of ids");
      }
      ids.push_back(id.get<std::int32_t>());
    }
    return ids;
  }
  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  std::string where_;
  Json json_;
};

std::string said(const std::string& role, const std::string& text) {
  return Json{{"role", role}, {"content", text}}.dump();
}

std::vector<std::int32_t> ids_of_text(const PromptReading& how, const std::string& text,
                                      const std::string& where) {
  try {
    if (!how.chat) return how.text.encode(text, how.parse_special);
    const std::string system = how.system.empty() ? "" : said("system", how.system) + ", ";
    return how.text.encode(Conversation::parse("[" + system + said("user", text) + "]", where));
  } catch (const Json::exception&) {
    throw ConfigError(where + ": the prompt is not valid UTF-8; convert it, as with iconv");
  } catch (const Error& error) {
    throw ConfigError(where + ": " + error.what());
  }
}

std::vector<std::int32_t> ids_of_record(const PromptReading& how, const RecordReader& record,
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
    return how.text.encode(Conversation::parse(json, record.where()));
  } catch (const IoError& error) {  // it names the place itself
    throw ConfigError(error.what());
  } catch (const ConfigError& error) {
    throw ConfigError(record.where() + ": " + error.what());
  }
}

}  // namespace

void complete_prompt(Prompt& prompt, std::int64_t positions) {
  constexpr std::int64_t kMostTokens = 256;
  if (prompt.settings.most_tokens == 0) {
    prompt.settings.most_tokens =
        std::clamp<std::int64_t>(positions - std::ssize(prompt.ids), 1, kMostTokens);
  }
  std::string problem = prompt.settings.sampling.problem();
  if (problem.empty() && prompt.settings.samples < 1) problem = "samples must be at least 1";
  if (problem.empty() && prompt.settings.samples > 1 && prompt.settings.sampling.temperature == 0) {
    problem = "samples are all the same at temperature 0; set a temperature";
  }
  if (!problem.empty()) throw ConfigError(prompt.where + ": " + problem);
}

Prompt read_text_prompt(const PromptReading& how, const std::string& text, std::string where) {
  Prompt prompt{
      .id = "1", .where = where, .ids = ids_of_text(how, text, where), .settings = how.settings};
  complete_prompt(prompt, how.positions);
  return prompt;
}

Prompt read_prompt_record(const PromptReading& how, const std::string& json, std::string where,
                          std::int64_t line) {
  const RecordReader record(json, std::move(where));
  Prompt prompt{.id = record.id(line),
                .where = record.where(),
                .ids = ids_of_record(how, record, json),
                .settings = how.settings};
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
  auto seed = static_cast<std::int64_t>(settings.sampling.seed);
  record.read("seed", seed);
  settings.sampling.seed = static_cast<std::uint64_t>(seed);
  complete_prompt(prompt, how.positions);
  return prompt;
}

}  // namespace strata
