// Prompts are read twice: first all of them, to know how much memory they need and that none is
// wrong, then one by one as there is room. What comes by standard input is kept in between.

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "commands/completions.h"
#include "commands/input_lines.h"
#include "commands/model_session.h"
#include "commands/prompts.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/stop_signals.h"
#include "strata/base/text.h"
#include "strata/base/work_meter.h"
#include "strata/commands/generate.h"
#include "strata/complete/sequence_length.h"

namespace strata {

namespace {

InputLines open_input(const GenerateOptions& options) {
  if (options.prompt.has_value() != options.input.empty()) {
    throw ConfigError("give one of --prompt TEXT and --input FILE");
  }
  return options.prompt ? InputLines::of_text(*options.prompt, "--prompt")
                        : InputLines(options.input, options.jsonl);
}

/// The prompts that were given, to be read from the beginning as often as needed.
class PromptSource {
 public:
  PromptSource(const GenerateOptions& options, const PromptReading& how)
      : how_(how), lines_(open_input(options)) {}

  [[nodiscard]] bool has_records() const { return lines_.has_records(); }
  void rewind() {
    lines_.rewind();
    text_was_read_ = false;
  }
  /// Returns the next prompt, or nothing after the last.
  [[nodiscard]] std::optional<Prompt> next() {
    if (has_records()) {
      const std::optional<InputLine> line = lines_.next();
      if (!line) return std::nullopt;
      return read_prompt_record(how_, line->text, line->where, line->number);
    }
    if (std::exchange(text_was_read_, true)) return std::nullopt;
    return read_text_prompt(how_, lines_.text(), lines_.name());
  }

 private:
  const PromptReading& how_;
  InputLines lines_;
  bool text_was_read_ = false;
};

/// What all prompts together need.
struct Survey {
  std::int64_t longest = 0;    ///< tokens of a sequence, prompt included
  std::int64_t sequences = 0;  ///< that are not in the output yet
  std::int64_t tokens = 0;     ///< that they may draw
  std::int64_t prompt_tokens = 0;
  bool penalties = false;
  bool conversations = false;  ///< whether there are any

  /// Returns as many sequences that all have the mean length.
  [[nodiscard]] GenerationLoad load() const {
    return {.sequences = sequences,
            .prompt_tokens = std::max<std::int64_t>(1, prompt_tokens / sequences),
            .drawn_tokens = std::max<std::int64_t>(1, tokens / sequences)};
  }
};

/// Throws ConfigError for an id that the model does not have.
void check_ids(const Prompt& prompt, std::int64_t vocabulary) {
  for (const std::int32_t id : prompt.ids) {
    if (id < vocabulary) continue;
    throw ConfigError(prompt.where + ": token " + std::to_string(id) +
                      " is not one of the model's " + format_count(vocabulary));
  }
}

/// Reads all prompts. Throws ConfigError for the first one that is wrong.
Survey survey(PromptSource& source, std::optional<std::int64_t> context, const LlamaConfig& model,
              const CompletionFile* output) {
  const std::int64_t positions = model.max_position_embeddings;
  Survey all;
  std::map<std::string, std::string> places;  // of ids
  const std::int64_t most = std::min(context.value_or(positions), positions);
  while (const std::optional<Prompt> prompt = source.next()) {
    const auto [known, is_new] = places.emplace(prompt->id, prompt->where);
    if (!is_new) {
      throw ConfigError(prompt->where + ": id \"" + printable_name(shortened(prompt->id)) +
                        "\" is that of " + known->second + " as well; give each prompt its own");
    }
    check_ids(*prompt, model.vocab_size);
    if (prompt->ids.empty()) throw ConfigError(prompt->where + ": the prompt has no token");
    const std::int64_t length = std::ssize(prompt->ids) + prompt->settings.most_tokens;
    const std::string problem =
        too_long({.tokens = std::ssize(prompt->ids),
                  .to_follow = prompt->settings.most_tokens,
                  .most = most,
                  .limit = most < positions ? "--context" : "the model's max_position_embeddings"},
                 "shorten it, or lower max_tokens");
    if (!problem.empty()) throw ConfigError(prompt->where + ": the prompt " + problem);
    all.longest = std::max(all.longest, length);
    all.conversations |= prompt->is_conversation;
    all.penalties |= prompt->settings.sampling.repeat_penalty != 1;
    for (std::int64_t sample = 0; sample < prompt->settings.samples; ++sample) {
      if (output != nullptr && output->has(prompt->id, sample)) continue;
      ++all.sequences;
      all.tokens += prompt->settings.most_tokens;
      all.prompt_tokens += std::ssize(prompt->ids);
    }
  }
  return all;
}

/// Hands out the sequences of all prompts, one by one.
class Requests {
 public:
  Requests(PromptSource& source, const CompletionFile* output) : source_(source), output_(output) {}

  /// Returns the next sequence that is not in the output: its prompt, and which sample it is.
  [[nodiscard]] std::optional<std::pair<Prompt, std::int64_t>> next() {
    while (true) {
      if (!prompt_ || sample_ == prompt_->settings.samples) {
        prompt_ = source_.next();
        sample_ = 0;
        if (!prompt_) return std::nullopt;
      }
      const std::int64_t sample = sample_++;
      if (output_ != nullptr && output_->has(prompt_->id, sample)) continue;
      return std::pair(*prompt_, sample);
    }
  }

 private:
  PromptSource& source_;
  const CompletionFile* output_;
  std::optional<Prompt> prompt_;
  std::int64_t sample_ = 0;
};

std::string counts_text(const GenerationCounts& counts) {
  return fmt::format(
      "{} tokens drawn in {:.2f} s ({} tokens/s); sequences {}, prompt tokens {}, sweeps {}",
      format_count(counts.drawn_tokens), counts.seconds,
      format_count(static_cast<std::int64_t>(static_cast<double>(counts.drawn_tokens) /
                                             std::max(counts.seconds, 1e-9))),
      format_count(counts.sequences), format_count(counts.prompt_tokens),
      format_count(counts.sweeps));
}

}  // namespace

int generate_command(const GenerateOptions& options) {
  const StopSignals stop;
  const NamedModel model("generate", options.model);
  PromptReading how{
      .text = model.text(),
      .settings = model.settings(options.draw),
      .positions = std::min(options.model.context.value_or(model.config().max_position_embeddings),
                            model.config().max_position_embeddings),
      .chat = options.chat,
      .system = options.system,
      .answer_stops = options.draw.ignore_eos ? std::vector<std::string>() : model.answer_stops(),
      .parse_special = options.parse_special};
  how.settings.samples = options.samples;
  PromptSource source(options, how);
  if (!options.model.chat_template.empty() && !options.chat && !source.has_records()) {
    throw ConfigError(
        "--chat-template: is for conversations, and the prompt is a text to go on "
        "with; add --chat to have it answered, or leave the template out");
  }
  std::optional<CompletionFile> output;
  if (!options.output.empty()) {
    output.emplace(options.output, options.resume      ? OldOutput::kResume
                                   : options.overwrite ? OldOutput::kReplace
                                                       : OldOutput::kRefuse);
    if (output->found() > 0) {
      log::info("{} has {} completions, which are passed over", options.output,
                format_count(static_cast<std::int64_t>(output->found())));
    }
  }
  CompletionFile* const file = output ? &*output : nullptr;
  const Survey all = survey(source, options.model.context, model.config(), file);
  if (all.sequences == 0) {
    log::info("nothing is left to do");
    return 0;
  }
  if (all.conversations && !options.draw.ignore_eos) model.warn_of_endless_answers();
  const bool streams =
      file == nullptr && !source.has_records() && !options.json_lines && all.sequences == 1;
  if (streams && options.logprobs) {
    throw ConfigError("--logprobs: stand in JSON lines; add --json, or --output FILE");
  }
  const std::unique_ptr<GenerationSession> session =
      model.load(options.model.context.value_or(all.longest), all.load(), all.penalties);
  log::info("model    {}: {}", options.model.model.string(), session->setup().to_string());
  if (!session->choice_text().empty()) log::info("chosen   {}", session->choice_text());

  if (file != nullptr) file->open();  // what was there is lost only now
  source.rewind();
  Requests requests(source, file);
  std::map<std::size_t, Completion> open;
  std::size_t taken = 0;
  Generator generator(session->engine());
  WorkProgress work;
  work.begin("generate", {static_cast<std::uint64_t>(all.tokens), "tokens"});
  std::optional<WorkMeter> meter;
  if (!streams) meter.emplace(work, WorkMeter::Elsewhere::kLogged);
  const auto next = [&]() -> std::optional<GenerateRequest> {
    auto found = requests.next();
    if (!found) return std::nullopt;
    const auto& [prompt, sample] = *found;
    GenerateRequest request{.prompt = prompt.ids,
                            .sampling = prompt.settings.sampling,
                            .most_tokens = prompt.settings.most_tokens,
                            .sample = sample};
    const std::string problem = generator.problem(request);  // the file may have changed
    if (!problem.empty()) throw ConfigError(prompt.where + ": " + problem);
    open.emplace(taken++, Completion(model.text(), prompt, sample));
    return request;
  };
  const auto drawn = [&](const DrawnToken& token) {
    if (const int signal = stop.received()) throw Interrupted(signal);
    const auto at = open.find(token.sequence);
    Completion& completion = at->second;
    const bool ends =
        !options.draw.ignore_eos && model.ends(token.id, completion.is_of_conversation());
    std::string added;
    const bool goes_on = completion.add(token, ends, added) && !completion.full();
    if (!goes_on) added += completion.finish();
    if (streams) {
      std::cout << printable_for(STDOUT_FILENO, added) << std::flush;
    } else {
      work.set(static_cast<std::uint64_t>(generator.counts().drawn_tokens));
    }
    if (goes_on) return true;
    const std::string line = completion.line(options.logprobs);
    if (file != nullptr) {
      file->write(line);
    } else if (!streams) {
      log::print_above([&] { std::cout << line << std::flush; });
    }
    open.erase(at);
    return false;
  };
  generator.run(next, drawn);
  meter.reset();
  if (streams) std::cout << std::endl;
  log::info("{}", counts_text(generator.counts()));
  return 0;
}

}  // namespace strata
