// `tokenize` calls the tokenizer of the data layer and prints what it made. While that runs, a
// meter shows progress on standard error, apart from the results.

#include <fmt/core.h>
#include <cstdint>
#include <iostream>
#include <string>
#include <utility>

#include "commands/token_printer.h"
#include "strata/base/stop_signals.h"
#include "strata/base/text.h"
#include "strata/base/work_meter.h"
#include "strata/commands/commands.h"
#include "strata/train/next_step.h"

namespace strata {
namespace {

void print_set(const std::string& file, std::int64_t documents, std::int64_t tokens,
               std::int64_t learnt) {
  std::cout << printable_name(file) << ": " << format_count(documents) << " documents, "
            << format_count(tokens) << " tokens";
  if (learnt != tokens) std::cout << ", " << format_count(learnt) << " with loss";
}

/// Returns the share of all tokens that fell to the validation set, in percent.
std::string share_text(const TokenizeStatistics& made) {
  const auto held_out = static_cast<double>(made.validation_tokens);
  return fmt::format("{:.2f} %", 100 * held_out / (held_out + static_cast<double>(made.tokens)));
}

/// Names an output, or its first and last shard.
std::string files_text(const std::string& output, std::int64_t shards) {
  if (shards == 0) return output;
  if (shards == 1) return shard_file(output, 0);
  return shard_file(output, 0) + " to " + shard_file(output, shards - 1);
}

/// Returns how a model is trained on what was made.
std::string after_tokenizing(const TokenizeOptions& options) {
  std::string text = "strata train CONFIG --set data.train=" + shell_word(options.output);
  if (!options.tokenizer.empty()) text += " --set model.tokenizer=" + shell_word(options.tokenizer);
  if (options.validation_output.empty()) return text;
  return text + " --set data.validation=" + shell_word(options.validation_output);
}

/// Prints documents instead of making files of them.
int show_documents(TokenizeOptions options, std::int64_t count) {
  const bool colours = shows_colours();
  options.threads = 1;
  options.show = [&](const EncodedDocument& document, const Tokenizer* tokenizer) {
    const auto print = [&](const std::string& name, std::size_t begin, std::size_t size) {
      const auto loss = document.loss.empty() ? document.loss : document.loss.subspan(begin, size);
      print_tokens(std::cout,
                   {.name = name,
                    .ids = document.ids.subspan(begin, size),
                    .loss = loss,
                    .tokenizer = tokenizer},
                   colours);
    };
    const std::size_t chosen = document.chosen;
    if (chosen == 0) {
      print(document.name, 0, document.ids.size());
    } else {
      print(document.name + ", chosen", 0, chosen);
      print(document.name + ", rejected", chosen, document.ids.size() - chosen);
    }
    return --count > 0;
  };
  (void)tokenize(options);
  return 0;
}

}  // namespace

int tokenize_command(TokenizeOptions options, std::int64_t show) {
  if (show > 0) return show_documents(std::move(options), show);
  const StopSignals stop;
  WorkProgress work;
  work.begin("tokenize");
  const WorkMeter meter(work, WorkMeter::Elsewhere::kLogged);
  options.progress = [&](const TokenizeProgress& progress) {
    if (const int signal = stop.received()) throw Interrupted(signal);
    work.set(progress.bytes_done, progress.bytes,
             format_count(progress.files_done) + "/" + format_count(progress.files) + " files");
  };
  const TokenizeStatistics made = tokenize(options);
  print_set(files_text(options.output, made.shards), made.documents, made.tokens,
            made.learnt_tokens);
  if (!options.validation_output.empty()) {
    std::cout << '\n';
    print_set(files_text(options.validation_output, made.validation_shards),
              made.validation_documents, made.validation_tokens, made.validation_learnt_tokens);
    std::cout << ", " << share_text(made) << " of all";
  }
  std::cout << std::endl;
  if (made.shards == 0) say_next(after_tokenizing(options));
  return 0;
}

}  // namespace strata
