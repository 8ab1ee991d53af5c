// Records are read twice, so that memory is taken for the longest and none that is wrong is noticed
// late. They are answered in their order, though a later one may be scored first.

#include "strata/complete/score_records.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <span>
#include <utility>

#include "complete/scored_records.h"
#include "strata/base/error.h"
#include "strata/complete/scorer.h"

namespace strata {

namespace {

/// The records that are being scored: hands out their texts, and takes what these come to.
class OpenRecords {
 public:
  OpenRecords(const RecordReading& how, InputLines& lines) : how_(how), lines_(lines) {}

  /// Returns the next text, or nothing after the last one.
  std::optional<ScoreRequest> next() {
    if (waiting_.empty() && !read()) return std::nullopt;
    places_.push_back(waiting_.front().first);
    ScoreRequest request = std::move(waiting_.front().second);
    waiting_.pop_front();
    return request;
  }
  /// Takes the scores of the text with that number.
  void add(std::size_t number, std::span<const double> logprobs) {
    const Place place = places_.at(number);
    Question& question = open_.at(place.question);
    ScoredText& text = question.texts[place.text];
    for (std::size_t i = 0; i < logprobs.size(); ++i) {
      if (!text.loss.empty() && text.loss.at(i) == 0) continue;
      text.loglikelihood += logprobs[i];
      ++text.tokens;
    }
    --question.open;
  }
  /// Returns the next record, if all its texts are scored.
  std::optional<RecordScore> take_scored() {
    if (open_.empty() || open_.begin()->second.open > 0) return std::nullopt;
    return score_of(open_.extract(open_.begin()).mapped());
  }

 private:
  /// Where a text belongs.
  struct Place {
    std::size_t question = 0;
    std::size_t text = 0;
  };

  /// Reads a record; returns whether there was one.
  bool read() {
    const auto line = lines_.next();
    if (!line) return false;
    ScoredRecord record = read_record(how_, *line);
    for (std::size_t i = 0; i < record.requests.size(); ++i) {
      waiting_.emplace_back(Place{read_, i}, std::move(record.requests[i]));
    }
    open_.emplace(read_++, std::move(record.question));
    return true;
  }

  const RecordReading& how_;
  InputLines& lines_;
  std::size_t read_ = 0;
  std::deque<std::pair<Place, ScoreRequest>> waiting_;
  std::vector<Place> places_;             ///< of what the scorer has taken
  std::map<std::size_t, Question> open_;  ///< by number, also those that are scored before others
};

}  // namespace

RecordSurvey survey_records(const RecordReading& how, InputLines& lines) {
  RecordSurvey all;
  while (const auto line = lines.next()) {
    const ScoredRecord record = read_record(how, *line);
    all.truncated += record.question.truncated ? 1 : 0;
    for (const ScoreRequest& request : record.requests) {
      all.longest = std::max(all.longest, std::ssize(request.ids));
    }
    all.texts += std::ssize(record.requests);
    ++all.records;
  }
  if (all.records == 0) throw ConfigError(lines.name() + ": has no record");
  return all;
}

void RecordTotals::add(const RecordScore& score) {
  if (!score.choices) {
    ++texts;
    nats -= score.loglikelihood;
    tokens += score.tokens;
    bytes += score.bytes;
    return;
  }
  const ChoiceScores& choices = *score.choices;
  if (!choices.answer) return;
  right.push_back(choices.choice == *choices.answer);
  right_by_byte.push_back(choices.choice_by_byte == *choices.answer);
}

void score_records(SweepEngine& engine, const RecordReading& how, InputLines& lines,
                   const RecordScored& record_scored, const TextsScored& texts_scored) {
  lines.rewind();
  OpenRecords records(how, lines);
  Scorer(engine).run(
      [&] {
        texts_scored(0);
        return records.next();
      },
      [&](std::size_t number, std::span<const double> logprobs) {
        records.add(number, logprobs);
        while (const auto score = records.take_scored()) record_scored(*score);
        texts_scored(1);
      });
}

}  // namespace strata
