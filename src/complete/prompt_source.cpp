// What comes by standard input is kept between the two readings; a file is read again, and may have
// changed meanwhile, which the generator notices.

#include "strata/complete/prompt_source.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "strata/base/error.h"
#include "strata/base/text.h"
#include "strata/complete/sequence_length.h"

namespace strata {

namespace {

/// Throws ConfigError for an id that the model does not have, or if there is none at all.
void check_ids(const Prompt& prompt, std::int64_t vocabulary) {
  for (const std::int32_t id : prompt.ids) {
    if (id < vocabulary) continue;
    throw ConfigError(prompt.where + ": token " + std::to_string(id) +
                      " is not one of the model's " + format_count(vocabulary));
  }
  if (prompt.ids.empty()) throw ConfigError(prompt.where + ": the prompt has no token");
}

/// The prompts that have been read, by their ids, which tell the lines of the output apart.
class PromptIds {
 public:
  /// Throws ConfigError, which names both places, if another prompt has this one's id.
  void add(const Prompt& prompt) {
    const auto [known, is_new] = places_.emplace(prompt.id, prompt.where);
    if (is_new) return;
    throw ConfigError(prompt.where + ": id \"" + printable_name(shortened(prompt.id)) +
                      "\" is that of " + known->second + " as well; give each prompt its own");
  }

 private:
  std::map<std::string, std::string> places_;
};

}  // namespace

void PromptSource::rewind() {
  lines_.rewind();
  text_was_read_ = false;
}

std::optional<Prompt> PromptSource::next() {
  if (has_records()) {
    const std::optional<InputLine> line = lines_.next();
    if (!line) return std::nullopt;
    return read_prompt_record(how_, line->text, line->where, line->number);
  }
  if (std::exchange(text_was_read_, true)) return std::nullopt;
  return read_text_prompt(how_, lines_.text(), lines_.name());
}

GenerationLoad PromptSurvey::load() const {
  return {.sequences = sequences,
          .prompt_tokens = std::max<std::int64_t>(1, prompt_tokens / sequences),
          .drawn_tokens = std::max<std::int64_t>(1, tokens / sequences)};
}

PromptSurvey survey_prompts(PromptSource& source, std::optional<std::int64_t> context,
                            const LlamaConfig& model, const CompletionFile* done) {
  const std::int64_t positions = model.context_limit();
  const std::int64_t most = std::min(context.value_or(positions), positions);
  const std::string limit = "the model's " + std::string(model.context_limit_name());
  PromptSurvey all;
  PromptIds ids;
  while (const std::optional<Prompt> prompt = source.next()) {
    ids.add(*prompt);
    check_ids(*prompt, model.vocab_size);
    const std::int64_t prompt_tokens = std::ssize(prompt->ids);
    const std::int64_t drawn = prompt->settings.most_tokens;
    const std::string problem = too_long({.tokens = prompt_tokens,
                                          .to_follow = drawn,
                                          .most = most,
                                          .limit = most < positions ? "--context" : limit},
                                         "shorten it, or lower max_tokens");
    if (!problem.empty()) throw ConfigError(prompt->where + ": the prompt " + problem);
    all.longest = std::max(all.longest, prompt_tokens + drawn);
    all.conversations |= prompt->is_conversation;
    all.penalties |= prompt->settings.sampling.repeat_penalty != 1;
    for (std::int64_t sample = 0; sample < prompt->settings.samples; ++sample) {
      if (done != nullptr && done->has(prompt->id, sample)) continue;
      ++all.sequences;
      all.tokens += drawn;
      all.prompt_tokens += prompt_tokens;
    }
  }
  return all;
}

std::optional<PromptSample> PromptSamples::next() {
  while (true) {
    if (!prompt_ || sample_ == prompt_->settings.samples) {
      prompt_ = source_.next();
      sample_ = 0;
      if (!prompt_) return std::nullopt;
    }
    const std::int64_t sample = sample_++;
    if (done_ != nullptr && done_->has(prompt_->id, sample)) continue;
    return PromptSample{.prompt = *prompt_, .sample = sample};
  }
}

}  // namespace strata
