// Scores records: the log-likelihood of a text after its prompt, or which of several choices is the
// likeliest, and over all records the loss of the texts and the share of right answers. `evaluate`
// calls it for JSON lines, first to survey all records and then to score them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "strata/complete/estimate.h"
#include "strata/complete/input_lines.h"
#include "strata/complete/model_text.h"
#include "strata/engine/sweep_engine.h"

namespace strata {

/// How records are read.
struct RecordReading {
  const ModelText& text;
  std::int64_t most_tokens = 0;  ///< of a sequence
  bool truncate = false;         ///< longer ones lose tokens on their left
};

/// What all records together need.
struct RecordSurvey {
  std::int64_t longest = 1;    ///< tokens of a sequence
  std::int64_t texts = 0;      ///< that are scored
  std::int64_t records = 0;    ///< at least one
  std::int64_t truncated = 0;  ///< records that lose tokens
};

/// Reads all records. Throws ConfigError that names file and line of the first one that is wrong,
/// or the file if it has none.
[[nodiscard]] RecordSurvey survey_records(const RecordReading& how, InputLines& lines);

/// What a record of choices came to.
struct ChoiceScores {
  std::vector<double> loglikelihoods{};  ///< of the choices
  std::size_t choice = 0;                ///< the likeliest
  std::size_t choice_by_byte = 0;        ///< the likeliest for its length
  std::optional<std::size_t> answer{};   ///< the right one, if the record says so
};

/// What a record came to.
struct RecordScore {
  std::string id{};
  double loglikelihood = 0;               ///< of its text
  std::int64_t tokens = 0;                ///< of it that count
  std::size_t bytes = 0;                  ///< of their text
  std::optional<ChoiceScores> choices{};  ///< instead of one text
};

/// What all records came to.
struct RecordTotals {
  std::int64_t texts = 0;  ///< of records without choices, and of these
  std::int64_t tokens = 0;
  std::size_t bytes = 0;
  double nats = 0;
  std::vector<bool> right{};          ///< of choices with an answer, whether the likeliest is it
  std::vector<bool> right_by_byte{};  ///< likewise for their length

  void add(const RecordScore& score);
};

/// Is given each record that is scored, in the order of the lines.
using RecordScored = std::function<void(const RecordScore& score)>;
/// Is told how many more texts were scored, 0 or more, before each text is taken and after.
using TextsScored = std::function<void(std::int64_t more)>;

/// Scores all records of `lines` from the beginning. The engine was planned for scores of the
/// survey's longest sequence. Throws what the callbacks throw, and as survey_records and
/// Scorer::run do.
void score_records(SweepEngine& engine, const RecordReading& how, InputLines& lines,
                   const RecordScored& record_scored, const TextsScored& texts_scored);

}  // namespace strata
