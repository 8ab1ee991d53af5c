// Prompts are tokens from the start on, so that what is wrong with them is said before anything is
// trained.

#include "strata/run/run_samples.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/log.h"
#include "strata/base/random.h"
#include "strata/base/text.h"
#include "strata/plan/sample_setup.h"
#include "strata/run/generator.h"

namespace strata {

namespace {

/// Samples draw from this random stream; weights and the order of data have others.
constexpr std::uint64_t kSampleSeeds = 0x73616d706c6573;  // "samples"

}  // namespace

std::string json_line(std::int64_t step, const RunSample& sample) {
  using Json = nlohmann::ordered_json;
  const Json json{{"step", step},
                  {"prompt", sample.prompt},
                  {"text", sample.text},
                  {"finish_reason", sample.finish_reason},
                  {"prompt_tokens", sample.prompt_tokens},
                  {"tokens", sample.ids.size()}};
  return json_text(json, kOneLine, NotUtf8::kReplace) + '\n';
}

RunSamples::RunSamples(const RunConfig& config)
    : seed_(static_cast<std::uint64_t>(config.run.seed)),
      tokens_(config.run.sample_tokens),
      text_(std::make_unique<ModelText>(
          ModelTextOptions{.folder = config.model.path,
                           .tokenizer = config.model.tokenizer,
                           .tokenizer_key = "model.tokenizer",
                           .vocabulary = config.model.llama.vocab_size})),
      end_(text_->end_token()),
      prompts_(config.run.sample_prompts) {
  if (!text_->has_texts()) {
    throw ConfigError(
        "model.tokenizer: samples (run.sample_every) need the model's tokenizer; name its file, or "
        "set run.sample_every to 0");
  }
  if (prompts_.empty()) {
    const std::optional<std::int32_t> begin = text_->begin_token();
    if (!begin) {
      throw ConfigError(
          "run.sample_prompts: the tokenizer has no token that begins texts; give a prompt");
    }
    prompts_.emplace_back();
    ids_.push_back({*begin});
  }
  const std::int64_t context = sample_context(config);
  for (std::size_t i = ids_.size(); i < prompts_.size(); ++i) {
    ids_.push_back(text_->encode(prompts_[i], false));
    const std::int64_t count = std::ssize(ids_[i]);
    if (count > 0 && count + tokens_ <= context) continue;
    throw ConfigError("run.sample_prompts: " + shortened(printable_name(prompts_[i])) + " has " +
                      format_count(count) + " tokens and " + format_count(tokens_) +
                      " are to follow, but a sample may have " + format_count(context) +
                      "; give it another length, or lower run.sample_tokens");
  }
}

std::vector<RunSample> RunSamples::draw(SweepAssembly& assembly, std::int64_t step, int ranks,
                                        const std::function<void()>& drawn) const {
  std::vector<RunSample> samples;
  for (std::size_t i = 0; i < prompts_.size(); ++i) {
    samples.push_back({.prompt = prompts_[i],
                       .text = {},
                       .finish_reason = "length",
                       .prompt_tokens = std::ssize(ids_[i]),
                       .ids = {}});
  }
  std::size_t taken = 0;
  const auto next = [&]() -> std::optional<GenerateRequest> {
    if (taken == prompts_.size()) return std::nullopt;
    GenerateRequest request{.prompt = ids_[taken],
                            .sampling = {},
                            .most_tokens = tokens_,
                            .sample = static_cast<std::int64_t>(taken)};
    request.sampling.seed = random_bits(seed_, kSampleSeeds, static_cast<std::uint64_t>(step));
    ++taken;
    return request;
  };
  const auto take = [&](const DrawnToken& token) {
    drawn();
    RunSample& sample = samples[token.sequence];
    if (sample.finish_reason == "length") sample.ids.push_back(token.id);
    if (token.id == end_) sample.finish_reason = "stop";
    // Ranks gather weights together: all make the same sweeps, whatever each of them draws.
    return ranks > 1 || sample.finish_reason == "length";
  };
  try {
    Generator(assembly).run(next, take);
  } catch (const NumericalError& error) {
    log::warn("samples of step {}: {}", step, error.what());
    for (RunSample& sample : samples) {
      if (sample.finish_reason == "length" && std::ssize(sample.ids) < tokens_) {
        sample.finish_reason = "nonfinite";
      }
    }
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    std::span<const std::int32_t> ids = samples[i].ids;
    if (samples[i].finish_reason == "stop") ids = ids.first(ids.size() - 1);
    TextStream stream(*text_, ids_[i], {});
    for (const std::int32_t id : ids) samples[i].text += stream.add(id);
    samples[i].text += stream.finish();
  }
  return samples;
}

}  // namespace strata
