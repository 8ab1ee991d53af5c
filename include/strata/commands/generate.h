// The commands that use a model instead of training it. The command line calls them with options
// that it has parsed; all throw an Error.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/complete/model_options.h"

namespace strata {

/// What `generate` is told.
struct GenerateOptions {
  ModelOptions model;
  DrawOptions draw;
  std::optional<std::string> prompt{};
  std::string input{};      ///< a file, or "-" for standard input
  bool jsonl = false;       ///< the input has a record on each line; also where its name says so
  std::string output{};     ///< a file of JSON lines; empty: standard output
  bool json_lines = false;  ///< on standard output, where it would be text
  bool chat = false;        ///< a prompt is what a user says
  std::string system{};
  bool parse_special = false;
  std::int64_t samples = 1;
  bool logprobs = false;
  bool overwrite = false;
  bool resume = false;  ///< what is in the output already is passed over
};

/// What `chat` is told.
struct ChatOptions {
  ModelOptions model;
  DrawOptions draw;
  std::string system{};
};

/// What `evaluate` is told.
struct EvaluateOptions {
  ModelOptions model;
  std::string input;   ///< a file of text, of tokens (.bin) or of JSON lines; "-": standard input
  bool jsonl = false;  ///< the input has a record on each line; also where its name says so
  std::optional<std::int64_t> stride{};  ///< tokens from one window of a text to the next
  bool reference = false;  ///< answers of pairs are scored, and the scores stored beside them
  bool truncate = false;   ///< records with too many tokens lose those on their left
};

/// Scores a text or a token file, and prints its perplexity with its error as a line of JSON; or
/// scores records, a line each and one that sums up. Throws ConfigError, before anything is scored,
/// for the first record that is wrong.
int evaluate_command(const EvaluateOptions& options);
/// Continues prompts. Text goes to standard output as it is drawn, if there is one sequence; else a
/// line of JSON for each, as it ends. Counts and speed go to standard error. SIGINT and SIGTERM end
/// it; sequences that have ended are in the output by then. Throws ConfigError, before anything is
/// drawn, for the first prompt that cannot be continued.
int generate_command(const GenerateOptions& options);
/// Talks: reads what the user says from standard input, a line each, and prints what the model
/// answers, until the input ends.
int chat_command(const ChatOptions& options);

/// Prints a chat template: the built-in one of that name, or that of a model, a checkpoint or a
/// run. Throws ConfigError if there is none.
int chat_template_command(const std::string& name);

}  // namespace strata
