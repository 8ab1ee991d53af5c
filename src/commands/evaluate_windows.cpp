// A checkpoint of a run is evaluated by the rows of the run's validation, anything else by windows.

#include <algorithm>
#include <cmath>
#include <optional>

#include "commands/evaluations.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/complete/score_windows.h"

namespace strata {

namespace {

void print_scores(const TokenSource& tokens, const WindowReader& reader,
                  const WindowScores& scores) {
  const double perplexity = std::exp(scores.loss.value);
  nlohmann::ordered_json json{{"file", tokens.name()},     {"tokens", scores.tokens},
                              {"windows", reader.count()}, {"context", reader.context()},
                              {"loss", scores.loss.value}, {"perplexity", perplexity}};
  if (scores.loss.standard_error) {
    json["loss_error"] = *scores.loss.standard_error;
    json["perplexity_error"] = perplexity * *scores.loss.standard_error;
  }
  if (scores.bits_per_byte) {
    json["bytes"] = scores.bytes;
    json["bits_per_byte"] = *scores.bits_per_byte;
  }
  print_json_line(json);
}

/// Scores all windows of a source and prints what they come to.
void evaluate(const EvaluateOptions& options, const NamedModel& model, const TokenSource& tokens,
              WindowReader& reader, std::optional<std::size_t> text_bytes) {
  const auto session = load_scoring(options, model, reader.context(), reader.count());
  EvaluationProgress progress(reader.count(), "windows");
  const WindowScores scores = score_windows(
      session->engine(),
      {.tokens = tokens, .text = model.text(), .reader = reader, .text_bytes = text_bytes},
      [&](std::int64_t more) { progress.add(more); });
  print_scores(tokens, reader, scores);
}

/// Returns the tokens of a window, if the user says nothing.
std::int64_t usual_context(const NamedModel& model) {
  constexpr std::int64_t kContext = 2048;
  const std::optional<RunConfig> run = model.run();
  return run ? run->data.sequence_length + 1
             : std::min(model.config().max_position_embeddings, kContext);
}

}  // namespace

void evaluate_windows(const EvaluateOptions& options, const NamedModel& model,
                      const TokenSource& tokens, std::optional<std::size_t> text_bytes) {
  OverlappingWindows reader(tokens, model.config().vocab_size,
                            cut_windows(tokens, {.context = options.model.context,
                                                 .stride = options.stride,
                                                 .usual_context = usual_context(model)}));
  log::info("windows  {} of {} tokens, documents not kept apart (--context, --stride)",
            format_count(reader.count()), format_count(reader.context()));
  evaluate(options, model, tokens, reader, text_bytes);
}

void evaluate_rows(const EvaluateOptions& options, const NamedModel& model, const RunConfig& run,
                   const TokenSource& tokens) {
  ValidationRows reader(
      tokens, model.config().vocab_size,
      {.row_tokens = run.data.sequence_length, .document_mask = run.data.document_mask});
  log::info("windows  {} rows of {} tokens, as the run validates: {}{}",
            format_count(reader.count()), format_count(run.data.sequence_length),
            run.data.packing ? "documents packed whole, " : "",
            run.data.document_mask ? "each document by itself" : "documents not kept apart");
  evaluate(options, model, tokens, reader, {});
}

}  // namespace strata
