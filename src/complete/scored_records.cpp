// A record becomes the sequences of its texts. Which of their tokens are scored is decided here:
// those of a text, of choices, or of what an assistant says in a conversation.

#include "complete/scored_records.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "complete/json_record.h"
#include "strata/base/error.h"
#include "strata/base/text.h"
#include "strata/complete/sequence_length.h"

namespace strata {

namespace {

using Json = JsonRecord::Json;

std::string text_at(const JsonRecord& record, const char* key) {
  const Json* const found = record.find(key);
  if (found == nullptr) return {};
  if (!found->is_string()) record.fail(key, "a text");
  return found->get<std::string>();
}

/// Returns `text` after `prompt`. A token that has characters of both belongs to the text.
ScoreRequest text_after(const ModelText& model, const std::string& prompt,
                        const std::string& text) {
  ScoreRequest request{.ids = model.encode(prompt + text, false)};
  const std::vector<std::int32_t> before = model.encode(prompt, false);
  const auto shared = std::ranges::mismatch(before, request.ids).in1 - before.begin();
  request.from = static_cast<std::size_t>(std::max<std::ptrdiff_t>(shared, 1));
  return request;
}

/// Returns a choice after `prompt`, all tokens of which are scored. Where nothing comes before it,
/// it follows the end of a document, or what begins one.
ScoreRequest choice_after(const ModelText& model, const std::string& prompt,
                          const std::string& choice) {
  const std::vector<std::int32_t> before = model.encode(prompt, false);
  ScoreRequest request = text_after(model, prompt, choice);
  if (before.empty()) {
    std::optional<std::int32_t> border = model.end_token();
    if (!border) border = model.begin_token();
    if (!border) {
      throw ConfigError(
          "nothing comes before a choice, whose first token so has no probability: the record has "
          "no \"prompt\", and the tokenizer names no token that begins or ends texts; add a "
          "prompt");
    }
    request.ids.insert(request.ids.begin(), *border);
  }
  if (request.from < request.ids.size()) return request;
  throw ConfigError("choice \"" + shortened(printable_name(choice)) +
                    "\" adds no token to the prompt, so nothing of it could be scored");
}

/// Returns the texts that a record wants to have scored.
std::vector<std::string> texts_of(const JsonRecord& record) {
  std::vector<std::string> texts;
  if (record.find("choices") != nullptr) {
    record.read("choices", texts);
    if (texts.size() < 2) record.fail("choices", "a list of two texts or more");
    const auto empty = std::ranges::find(texts, "");
    if (empty != texts.end()) {
      throw ConfigError(record.where() + ": choices: number " +
                        std::to_string(empty - texts.begin()) +
                        " is empty, and an empty text has no likelihood; write what it stands for");
    }
    return texts;
  }
  for (const char* key : {"completion", "text"}) {
    if (record.find(key) != nullptr) return {text_at(record, key)};
  }
  throw ConfigError(record.where() +
                    ": a record has \"choices\", \"completion\" or \"text\", before which a "
                    "\"prompt\" may come, or \"messages\"");
}

/// Returns whether a record is what `tokenize` reads as a conversation. Where the model has no
/// template, a prompt and a completion are texts, one after the other.
bool is_conversation(const ModelText& model, const JsonRecord& record) {
  if (record.find("messages") != nullptr) return true;
  const bool both = record.find("prompt") != nullptr && record.find("completion") != nullptr;
  return both && model.has_template();
}

/// Adds a text that is scored. Cuts it, or refuses it, if it has too many tokens.
void add_text(ScoredRecord& record, const RecordReading& how, ScoredText text,
              ScoreRequest request) {
  const auto most = static_cast<std::size_t>(how.most_tokens);
  const std::string problem =
      too_long({.tokens = std::ssize(request.ids), .most = how.most_tokens},
               "shorten it, raise --context, or have its left end cut by --truncate");
  if (!problem.empty() && !how.truncate) throw ConfigError(problem);
  if (!problem.empty()) {
    const std::size_t cut = request.ids.size() - most;
    const std::size_t from = std::max(request.from, cut + 1) - cut;
    const std::size_t unscored = from + cut - request.from;
    if (!text.loss.empty()) {
      text.loss.erase(text.loss.begin(), text.loss.begin() + static_cast<std::ptrdiff_t>(unscored));
    }
    request.ids.erase(request.ids.begin(), request.ids.begin() + static_cast<std::ptrdiff_t>(cut));
    request.from = from;
    if (from >= request.ids.size()) {
      throw ConfigError("has no token left to score in " + format_count(how.most_tokens) +
                        " of a sequence; raise --context");
    }
    if (unscored > 0) text.bytes = how.text.decode(std::span(request.ids).subspan(from)).size();
    record.question.truncated = true;
  }
  record.question.texts.push_back(std::move(text));
  record.requests.push_back(std::move(request));
}

/// Adds what an assistant says in a conversation, of which the loss of training counts.
void add_conversation(ScoredRecord& record, const RecordReading& how, const InputLine& line) {
  EncodedConversation encoded;
  try {
    encoded = how.text.encode_answers(Conversation::parse(line.text, line.where));
  } catch (const IoError& error) {
    const std::string_view problem = error.what();  // names the place itself, or does not
    throw ConfigError(std::string(
        problem.substr(problem.starts_with(line.where + ": ") ? line.where.size() + 2 : 0)));
  }
  ScoredText text;
  const auto begin = std::ranges::find(encoded.loss, 1);
  if (begin == encoded.loss.end()) {
    throw ConfigError("has no message of an assistant, so nothing of it could be scored");
  }
  const auto from = std::max<std::ptrdiff_t>(begin - encoded.loss.begin(), 1);
  text.loss.assign(encoded.loss.begin() + from, encoded.loss.end());
  std::vector<std::int32_t> answers;
  for (std::size_t i = 0; i < encoded.ids.size(); ++i) {
    if (encoded.loss[i] != 0) answers.push_back(encoded.ids[i]);
  }
  text.bytes = how.text.decode(answers).size();
  add_text(record, how, std::move(text),
           {.ids = std::move(encoded.ids), .from = static_cast<std::size_t>(from)});
}

/// Adds the texts of a record that are scored after its prompt.
void add_texts(ScoredRecord& record, const RecordReading& how, const JsonRecord& json) {
  const std::string prompt = text_at(json, "prompt");
  for (const std::string& text : texts_of(json)) {
    const bool is_choice = record.question.has_choices;
    ScoreRequest request =
        is_choice ? choice_after(how.text, prompt, text) : text_after(how.text, prompt, text);
    if (request.ids.empty()) throw ConfigError("has no token");
    // What comes first is scored only if something begins texts.
    const std::size_t unscored =
        prompt.empty() ? how.text.decode(std::span(request.ids).first(1)).size() : 0;
    add_text(record, how, {.bytes = text.size() - std::min(text.size(), unscored)},
             std::move(request));
  }
}

void read_answer(Question& question, const JsonRecord& json) {
  if (json.find("answer") == nullptr) return;
  std::vector<std::string> choices;
  if (question.has_choices) json.read("choices", choices);
  std::int64_t answer = -1;
  json.read("answer", answer);
  if (answer < 0 || answer >= std::ssize(choices)) {
    json.fail("answer", "the number of one of its choices, from 0 on");
  }
  question.answer = static_cast<std::size_t>(answer);
}

/// Returns the first of the largest.
std::size_t largest(const std::vector<double>& values) {
  return static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
}

}  // namespace

ScoredRecord read_record(const RecordReading& how, const InputLine& line) {
  const JsonRecord json(line.text, line.where);
  ScoredRecord record;
  record.question.id = json.id(line.number);
  record.question.has_choices = json.find("choices") != nullptr;
  read_answer(record.question, json);
  try {
    if (!record.question.has_choices && is_conversation(how.text, json)) {
      add_conversation(record, how, line);
    } else {
      add_texts(record, how, json);
    }
  } catch (const ConfigError& error) {
    const std::string_view problem = error.what();
    if (problem.starts_with(line.where)) throw;
    throw ConfigError(line.where + ": " + std::string(problem));
  }
  record.question.open = record.requests.size();
  return record;
}

RecordScore score_of(const Question& question) {
  RecordScore score{.id = question.id};
  if (!question.has_choices) {
    const ScoredText& text = question.texts.front();
    score.loglikelihood = text.loglikelihood;
    score.tokens = text.tokens;
    score.bytes = text.bytes;
    return score;
  }
  std::vector<double> sums;
  std::vector<double> by_byte;
  for (const ScoredText& text : question.texts) {
    sums.push_back(text.loglikelihood);
    const auto bytes = static_cast<double>(std::max<std::size_t>(text.bytes, 1));
    by_byte.push_back(text.loglikelihood / bytes);
  }
  score.choices = ChoiceScores{.loglikelihoods = sums,
                               .choice = largest(sums),
                               .choice_by_byte = largest(by_byte),
                               .answer = question.answer};
  return score;
}

}  // namespace strata
