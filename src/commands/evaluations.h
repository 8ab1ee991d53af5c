// The two kinds of evaluation that `evaluate` chooses from: of a long row of tokens in windows, and
// of records. Both load the model, have it scored, and print what comes of it as lines of JSON.
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "strata/base/stop_signals.h"
#include "strata/base/work_meter.h"
#include "strata/commands/generate.h"
#include "strata/complete/input_lines.h"
#include "strata/complete/named_model.h"
#include "strata/data/token_source.h"

namespace strata {

/// Prints a value as a line on standard output.
void print_json_line(const nlohmann::ordered_json& json);
/// Loads the model that scores so many sequences of at most `context` tokens, and logs its layout.
[[nodiscard]] std::unique_ptr<GenerationSession> load_scoring(const EvaluateOptions& options,
                                                              const NamedModel& model,
                                                              std::int64_t context,
                                                              std::int64_t sequences);

/// Shows how far an evaluation is, and ends it by a signal.
class EvaluationProgress {
 public:
  /// There are `total` to score, of what `unit` names.
  EvaluationProgress(std::int64_t total, const char* unit);
  /// Takes that `more` were scored, 0 or more. Throws Interrupted if a signal has come.
  void add(std::int64_t more);

 private:
  StopSignals stop_;
  WorkProgress work_;
  WorkMeter meter_{work_, WorkMeter::Elsewhere::kLogged};
};

/// Prints the loss and perplexity of all tokens of the source after the first one whose loss
/// counts. `text_bytes` are what its ids are the text of; absent, their texts are counted. Throws
/// ConfigError if the source has less than two tokens or an id that is none of the model's.
void evaluate_windows(const EvaluateOptions& options, const NamedModel& model,
                      const TokenSource& tokens, std::optional<std::size_t> text_bytes);

/// Prints the same of the rows that a run validates on, where `tokens` are its validation set: what
/// training calls the validation loss. Throws ConfigError if they fill no row, or as
/// evaluate_windows does.
void evaluate_rows(const EvaluateOptions& options, const NamedModel& model, const RunConfig& run,
                   const TokenSource& tokens);

/// Stores the log-probabilities of all answers of a token file of pairs beside it, and prints where
/// and how many. Throws ConfigError if it holds none, or for a model with adapters.
void evaluate_reference(const EvaluateOptions& options, const NamedModel& model,
                        const TokenSource& tokens);

/// Prints a line for each record, in their order, and one that sums up. Throws ConfigError that
/// names file and line of the first record that is wrong, before any is scored.
void evaluate_records(const EvaluateOptions& options, const NamedModel& model, InputLines& lines);

}  // namespace strata
