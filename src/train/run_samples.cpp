// Prompts are tokens from the start on, so that what is wrong with them is said before anything is
// trained. A sample ends where the model that the run leaves would end.

#include "strata/train/run_samples.h"

#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/log.h"
#include "strata/base/random.h"
#include "strata/base/sample_prompt.h"
#include "strata/base/text.h"
#include "strata/complete/completion.h"
#include "strata/complete/generator.h"
#include "strata/complete/sequence_length.h"
#include "strata/plan/sample_setup.h"
#include "train/model_companions.h"

namespace strata {

namespace {

using Json = nlohmann::ordered_json;

/// Samples draw from this random stream; weights and the order of data have others.
constexpr std::uint64_t kSampleSeeds = 0x73616d706c6573;  // "samples"

std::vector<std::int32_t> ids_of(const ModelText& text, const std::string& given,
                                 const std::string& where) {
  if (!is_conversation(given)) return text.encode(given, false);
  if (!text.has_template()) {
    throw ConfigError(where +
                      ": is a conversation, and neither the token files nor the model have a chat "
                      "template; tokenize with --chat-template, or give a text");
  }
  try {
    return text.encode(Conversation::parse(given, where));
  } catch (const ChatRefused& error) {
    throw ConfigError(where + ": " + error.what());
  } catch (const IoError& error) {  // it names what it is about itself
    throw ConfigError(error.what());
  }
}

}  // namespace

std::string json_line(std::int64_t step, const RunSample& sample) {
  const bool talks = is_conversation(sample.prompt);
  const Json json{{"step", step},
                  {"prompt", talks ? parse_json<Json>(sample.prompt) : Json(sample.prompt)},
                  {"text", sample.text},
                  {"finish_reason", sample.finish_reason},
                  {"prompt_tokens", sample.prompt_tokens},
                  {"tokens", sample.ids.size()}};
  return json_text(json, kOneLine, NotUtf8::kReplace) + '\n';
}

RunSamples::RunSamples(const RunConfig& config)
    : seed_(static_cast<std::uint64_t>(config.run.seed)),
      tokens_(config.run.sample_tokens),
      text_(std::make_unique<ModelText>(texts_of_run(config))),
      ends_(ends_of_run(config, *text_)) {
  if (!text_->has_texts()) {
    throw ConfigError(
        "model.tokenizer: samples (run.sample_every) need the model's tokenizer; name its file, or "
        "set run.sample_every to 0");
  }
  if (config.run.sample_prompts.empty()) {
    const std::optional<std::int32_t> begin = text_->begin_token();
    if (!begin) {
      throw ConfigError(
          "run.sample_prompts: the tokenizer has no token that begins texts; give a prompt");
    }
    Prompt prompt{.where = "run.sample_prompts", .ids = {*begin}};
    prompt.settings = {.most_tokens = tokens_, .end_tokens = ends_};
    prompts_.push_back({.given = {}, .prompt = std::move(prompt)});
  }
  const std::int64_t context = sample_context(config);
  for (const std::string& given : config.run.sample_prompts) {
    prompts_.push_back(read(given, "run.sample_prompts[" + std::to_string(prompts_.size()) + "]"));
    const std::int64_t count = std::ssize(prompts_.back().prompt.ids);
    const std::string problem =
        count == 0 ? "has no token; give a prompt that has one, or leave it out"
                   : too_long({.tokens = count, .to_follow = tokens_, .most = context},
                              "shorten it, or lower run.sample_tokens");
    if (problem.empty()) continue;
    throw ConfigError("run.sample_prompts: " + shortened(printable_name(given)) + " " + problem);
  }
}

RunSamples::SamplePrompt RunSamples::read(const std::string& given,
                                          const std::string& where) const {
  Prompt prompt{.where = where, .ids = ids_of(*text_, given, where)};
  prompt.settings = {.most_tokens = tokens_, .end_tokens = ends_};
  prompt.is_conversation = is_conversation(given);
  if (prompt.is_conversation) end_answer(prompt.settings, text_->turn_end());
  return {.given = given, .prompt = std::move(prompt)};
}

std::vector<RunSample> RunSamples::draw(SweepEngine& engine, std::int64_t step, int ranks,
                                        const std::function<void()>& drawn) const {
  std::vector<Completion> completions;
  for (const SamplePrompt& sample : prompts_) {
    const std::int64_t number = std::ssize(completions);
    completions.emplace_back(*text_, sample.prompt, number);
  }
  std::size_t taken = 0;
  const auto next = [&]() -> std::optional<GenerateRequest> {
    if (taken == prompts_.size()) return std::nullopt;
    GenerateRequest request = request_of(prompts_[taken].prompt, static_cast<std::int64_t>(taken));
    request.sampling.seed = random_bits(seed_, kSampleSeeds, static_cast<std::uint64_t>(step));
    ++taken;
    return request;
  };
  const auto take = [&](const DrawnToken& token) {
    drawn();
    Completion& completion = completions[token.sequence];
    if (!completion.over()) completion.add(token);
    // Ranks gather weights together: all make the same sweeps, whatever each of them draws.
    return ranks > 1 || !completion.over();
  };
  try {
    Generator(engine).run(next, take);
  } catch (const NumericalError& error) {
    log::warn("samples of step {}: {}", step, error.what());
  }
  std::vector<RunSample> samples;
  for (std::size_t i = 0; i < prompts_.size(); ++i) {
    Completion& completion = completions[i];
    const bool was_over = completion.over();  // else its logits were not finite
    if (!was_over) completion.finish();
    samples.push_back(
        {.prompt = prompts_[i].given,
         .text = completion.text(),
         .finish_reason = was_over ? std::string(completion.finish_reason()) : "nonfinite",
         .prompt_tokens = std::ssize(prompts_[i].prompt.ids),
         .ids = completion.ids()});
  }
  return samples;
}

}  // namespace strata
