// Joins the generator, which knows ids alone, with the texts of the model.

#include "strata/complete/completion.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/json.h"

namespace strata {

Completion::Completion(const ModelText& text, Prompt prompt, std::int64_t sample)
    : prompt_(std::move(prompt)),
      sample_(sample),
      stream_(text, prompt_.ids, prompt_.settings.stops) {}

std::string Completion::add(const DrawnToken& token) {
  ids_.push_back(token.id);
  logprobs_.push_back(token.logprob);
  std::string added;
  if (std::ranges::find(prompt_.settings.end_tokens, token.id) !=
      prompt_.settings.end_tokens.end()) {
    stopped_ = true;  // by a token, which has no text
  } else {
    added = stream_.add(token.id);
    text_ += added;
    stopped_ = stream_.stopped();
  }
  if (over()) added += finish();
  return added;
}

std::string Completion::finish() {
  if (stream_.stopped()) return {};
  std::string rest = stream_.finish();
  text_ += rest;
  stopped_ |= stream_.stopped();
  return rest;
}

bool Completion::over() const {
  return stopped_ || std::ssize(ids_) >= prompt_.settings.most_tokens;
}

std::string Completion::line(bool logprobs) const {
  nlohmann::ordered_json json{{"id", prompt_.id},
                              {"sample", sample_},
                              {"text", text_},
                              {"finish_reason", finish_reason()},
                              {"prompt_tokens", prompt_.ids.size()},
                              {"tokens", ids_.size()}};
  if (logprobs) {
    json["ids"] = ids_;
    json["logprobs"] = logprobs_;
  }
  return json_text(json, kOneLine, NotUtf8::kReplace) + '\n';
}

void complete_prompts(Generator& generator, const ModelText& text, const NextSample& next,
                      const TextAdded& added) {
  std::map<std::size_t, Completion> open;  // sequences by their number
  // The generator counts on over its runs, each of which ends all its sequences.
  auto taken = static_cast<std::size_t>(generator.counts().sequences);
  const auto next_request = [&]() -> std::optional<GenerateRequest> {
    std::optional<PromptSample> wanted = next();
    if (!wanted) return std::nullopt;
    GenerateRequest request = request_of(wanted->prompt, wanted->sample);
    const std::string problem = generator.problem(request);
    if (!problem.empty()) throw ConfigError(wanted->prompt.where + ": " + problem);
    open.emplace(taken++, Completion(text, std::move(wanted->prompt), wanted->sample));
    return request;
  };
  const auto drawn = [&](const DrawnToken& token) {
    const auto at = open.find(token.sequence);
    Completion& completion = at->second;
    const std::string more = completion.add(token);
    added(completion, more);
    if (!completion.over()) return true;
    open.erase(at);
    return false;
  };
  generator.run(next_request, drawn);
}

}  // namespace strata
