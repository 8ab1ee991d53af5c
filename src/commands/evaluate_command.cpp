// `evaluate` scores a token file or a text in windows, or records one by one, by what the input is.
// This file chooses; the others of the command load the model and print.

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "commands/evaluations.h"
#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/log.h"
#include "strata/commands/generate.h"
#include "strata/complete/input_lines.h"
#include "strata/complete/named_model.h"
#include "strata/complete/score_windows.h"
#include "strata/data/compatible.h"
#include "strata/data/open_source.h"
#include "strata/train/training_data.h"

namespace strata {

namespace {

bool is_token_file(const std::string& name) {
  return name.ends_with(".bin") || name.ends_with(".idx");
}

void require_no_truncation(const EvaluateOptions& options, const std::string& name) {
  if (!options.truncate) return;
  throw ConfigError("--truncate: is about records, and " + name +
                    " is read in windows, of which none is too long; leave it out");
}

/// Throws ConfigError if what --reference stores is asked for with what it has no use for.
void require_reference_options(const EvaluateOptions& options) {
  if (!options.reference) return;
  if (options.jsonl || !is_token_file(options.input)) {
    throw ConfigError("--reference: is about a token file of pairs (.bin), and --input names " +
                      options.input + "; name what `strata tokenize` made of the pairs");
  }
  if (options.stride) {
    throw ConfigError(
        "--stride: is about windows of one text, and --reference scores answers, each of which is "
        "scored whole; leave it out");
  }
}

/// Opens a token file as the run reads its own; in its rows, where it is evaluated by these.
std::unique_ptr<TokenSource> open_tokens(const std::string& file, std::optional<RunConfig>& run,
                                         bool in_rows) {
  if (!run) return open_token_source(file);
  if (!in_rows) return open_files(run->data, {.files = {file}});
  run->data.validation = file;
  return open_validation_set(*run);
}

}  // namespace

EvaluationProgress::EvaluationProgress(std::int64_t total, const char* unit) {
  work_.begin("evaluate", {static_cast<std::uint64_t>(total), unit});
}

void EvaluationProgress::add(std::int64_t more) {
  if (const int signal = stop_.received()) throw Interrupted(signal);
  work_.add(static_cast<std::uint64_t>(more));
}

void print_json_line(const nlohmann::ordered_json& json) {
  const std::string line = json_text(json, kOneLine, NotUtf8::kReplace) + '\n';
  log::print_above([&] { std::cout << line << std::flush; });
}

std::unique_ptr<GenerationSession> load_scoring(const EvaluateOptions& options,
                                                const NamedModel& model, std::int64_t context,
                                                std::int64_t sequences) {
  auto session = model.load_to_score(context, sequences);
  log::info("model    {}: {}", options.model.model.string(), session->setup().to_string());
  return session;
}

int evaluate_command(const EvaluateOptions& options) {
  require_reference_options(options);
  const NamedModel model("evaluate", options.model);
  if (!options.jsonl && is_token_file(options.input)) {
    require_no_truncation(options, options.input);
    std::optional<RunConfig> run = model.run();
    // A run on preferences validates by the loss of pairs, which says nothing of tokens.
    const bool as_validated = run && !run->train.objective && !options.model.context &&
                              !options.stride && !options.reference;
    const std::unique_ptr<TokenSource> tokens = open_tokens(options.input, run, as_validated);
    const std::filesystem::path named(options.model.tokenizer);
    require_tokenizer_of(
        {.vocabulary = model.config().vocab_size,
         .folder = named.empty()                          ? model.folder().string()
                   : std::filesystem::is_directory(named) ? named.string()
                                                          : named.parent_path().string()},
        *tokens);
    if (options.reference) {
      evaluate_reference(options, model, *tokens);
    } else if (as_validated) {
      evaluate_rows(options, model, *run, *tokens);
    } else {
      evaluate_windows(options, model, *tokens, {});
    }
    return 0;
  }
  InputLines lines(options.input, options.jsonl);
  if (lines.has_records() && options.stride) {
    throw ConfigError("--stride: is about windows of one text, and " + lines.name() +
                      " has records, each of which is scored whole; leave it out");
  }
  if (!lines.has_records()) require_no_truncation(options, lines.name());
  if (lines.has_records()) {
    evaluate_records(options, model, lines);
  } else {
    const TextTokens tokens(lines.name(), model.text().encode(lines.text(), false));
    evaluate_windows(options, model, tokens, lines.text().size());
  }
  return 0;
}

}  // namespace strata
