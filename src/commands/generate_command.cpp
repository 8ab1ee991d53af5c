// `generate` continues prompts. One sequence is printed as text while it is drawn; several become
// lines of JSON, each written when its sequence has ended.

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <string>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/stop_signals.h"
#include "strata/base/text.h"
#include "strata/base/work_meter.h"
#include "strata/commands/generate.h"
#include "strata/complete/completion.h"
#include "strata/complete/completion_file.h"
#include "strata/complete/named_model.h"
#include "strata/complete/prompt_source.h"

namespace strata {

namespace {

InputLines open_input(const GenerateOptions& options) {
  if (options.prompt.has_value() != options.input.empty()) {
    throw ConfigError("give one of --prompt TEXT and --input FILE");
  }
  return options.prompt ? InputLines::of_text(*options.prompt, "--prompt")
                        : InputLines(options.input, options.jsonl);
}

PromptReading reading_of(const GenerateOptions& options, const NamedModel& model) {
  const std::int64_t positions = model.config().context_limit();
  PromptReading how{.text = model.text(),
                    .settings = model.settings(options.draw),
                    .positions = std::min(options.model.context.value_or(positions), positions),
                    .chat = options.chat,
                    .system = options.system,
                    .answer_end = options.draw.ignore_eos ? TurnEnd() : model.text().turn_end(),
                    .parse_special = options.parse_special};
  how.settings.samples = options.samples;
  return how;
}

/// Looks at the file that completions go to, if there is to be one.
std::unique_ptr<CompletionFile> output_of(const GenerateOptions& options) {
  if (options.output.empty()) return nullptr;
  const OldOutput old = options.resume      ? OldOutput::kResume
                        : options.overwrite ? OldOutput::kReplace
                                            : OldOutput::kRefuse;
  auto output = std::make_unique<CompletionFile>(options.output, old);
  if (output->found() > 0) {
    log::info("{} has {} completions, which are passed over", options.output,
              format_count(static_cast<std::int64_t>(output->found())));
  }
  return output;
}

std::string counts_text(const GenerationCounts& counts) {
  return fmt::format(
      "{} tokens drawn in {:.2f} s ({} tokens/s); sequences {}, prompt tokens {}, sweeps {}",
      format_count(counts.drawn_tokens), counts.seconds,
      format_count(static_cast<std::int64_t>(static_cast<double>(counts.drawn_tokens) /
                                             std::max(counts.seconds, 1e-9))),
      format_count(counts.sequences), format_count(counts.prompt_tokens),
      format_count(counts.sweeps));
}

/// What is drawn, and what ends it early.
struct Job {
  Generator& generator;
  const ModelText& text;
  PromptSamples& samples;
  const StopSignals& stop;

  /// Draws all samples; `added` gets them after each token, unless a signal ends the job.
  void run(const TextAdded& added) const {
    complete_prompts(
        generator, text, [&] { return samples.next(); },
        [&](const Completion& completion, const std::string& more) {
          if (const int signal = stop.received()) throw Interrupted(signal);
          added(completion, more);
        });
  }
};

/// Prints the text of the job's one sequence as it comes.
void print_texts(const Job& job) {
  job.run([&](const Completion&, const std::string& added) {
    std::cout << printable_for(STDOUT_FILENO, added) << std::flush;
  });
  std::cout << std::endl;
}

/// Gives `write` a line for each sequence that has ended. All of them draw at most `tokens`.
void write_lines(const Job& job, std::int64_t tokens, bool logprobs,
                 const std::function<void(const std::string& line)>& write) {
  WorkProgress work;
  work.begin("generate", {static_cast<std::uint64_t>(tokens), "tokens"});
  const WorkMeter meter(work, WorkMeter::Elsewhere::kLogged);
  job.run([&](const Completion& completion, const std::string&) {
    work.set(static_cast<std::uint64_t>(job.generator.counts().drawn_tokens));
    if (completion.over()) write(completion.line(logprobs));
  });
}

}  // namespace

int generate_command(const GenerateOptions& options) {
  const StopSignals stop;
  const NamedModel model("generate", options.model);
  PromptSource source(reading_of(options, model), open_input(options));
  if (!options.model.chat_template.empty() && !options.chat && !source.has_records()) {
    throw ConfigError(
        "--chat-template: is for conversations, and the prompt is a text to go on "
        "with; add --chat to have it answered, or leave the template out");
  }
  const std::unique_ptr<CompletionFile> file = output_of(options);
  const PromptSurvey all =
      survey_prompts(source, options.model.context, model.config(), file.get());
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
  PromptSamples samples(source, file.get());
  Generator generator(session->engine());
  const Job job{.generator = generator, .text = model.text(), .samples = samples, .stop = stop};
  if (streams) {
    print_texts(job);
  } else {
    write_lines(job, all.tokens, options.logprobs, [&](const std::string& line) {
      if (file) {
        file->write(line);
      } else {
        log::print_above([&] { std::cout << line << std::flush; });
      }
    });
  }
  log::info("{}", counts_text(generator.counts()));
  return 0;
}

}  // namespace strata
