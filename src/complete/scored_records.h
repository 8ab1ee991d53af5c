// What `evaluate` reads of a line of JSON: the texts to be scored after their prompt, as sequences
// for the scorer, and what becomes of their scores. score_records.cpp reads records here, first all
// of them and then again one by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/complete/input_lines.h"
#include "strata/complete/score_records.h"
#include "strata/complete/scorer.h"

namespace strata {

/// A text that is scored, and what it came to.
struct ScoredText {
  std::size_t bytes = 0;
  std::vector<std::uint8_t> loss{};  ///< of the tokens that are scored; empty: all count
  double loglikelihood = 0;
  std::int64_t tokens = 0;
};

/// What a record asks for: the likelihood of one text, or which of several is the likeliest.
struct Question {
  std::string id;
  bool has_choices = false;
  std::optional<std::size_t> answer{};  ///< the choice that is right, if the record says so
  std::vector<ScoredText> texts{};
  std::size_t open = 0;    ///< texts that are not scored yet
  bool truncated = false;  ///< tokens were cut from the left of one
};

/// A record that was read.
struct ScoredRecord {
  Question question;
  std::vector<ScoreRequest> requests;  ///< of its texts
};

/// Reads the record of a line. Throws ConfigError that names the place for one that is wrong.
[[nodiscard]] ScoredRecord read_record(const RecordReading& how, const InputLine& line);
/// Returns what a record came to whose texts are all scored.
[[nodiscard]] RecordScore score_of(const Question& question);

}  // namespace strata
