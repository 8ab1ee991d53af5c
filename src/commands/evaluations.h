// What `evaluate` measures: the loss of a long row of tokens, window by window, and the likelihoods
// of the texts and answers of records. Results go to standard output as lines of JSON.
#pragma once

#include <cstddef>
#include <iostream>
#include <optional>

#include "commands/input_lines.h"
#include "commands/model_session.h"
#include "strata/base/json.h"
#include "strata/base/log.h"
#include "strata/commands/generate.h"
#include "strata/data/token_source.h"

namespace strata {

/// An estimate from a sample.
struct Estimate {
  double value = 0;
  std::optional<double> standard_error{};  ///< absent: there is one of it only
};

inline void print_json_line(const nlohmann::ordered_json& json) {
  const std::string line = json_text(json, kOneLine, NotUtf8::kReplace) + '\n';
  log::print_above([&] { std::cout << line << std::flush; });
}

/// Prints the loss and perplexity of all tokens of the source after the first one whose loss
/// counts. `text_bytes` are what its ids are the text of; absent, their texts are counted. Throws
/// ConfigError if the source has less than two tokens or an id that is none of the model's.
void evaluate_windows(const EvaluateOptions& options, const NamedModel& model,
                      const TokenSource& tokens, std::optional<std::size_t> text_bytes);

/// Prints the same of the rows that a run validates on, where `tokens` are its validation set: what
/// training calls the validation loss. Throws ConfigError if they fill no row, or likewise.
void evaluate_rows(const EvaluateOptions& options, const NamedModel& model, const RunConfig& run,
                   const TokenSource& tokens);

/// Prints a line for each record, in their order, and one that sums up. Throws ConfigError that
/// names file and line of the first record that is wrong, before any is scored.
void evaluate_records(const EvaluateOptions& options, const NamedModel& model, InputLines& lines);

}  // namespace strata
