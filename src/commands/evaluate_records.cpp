// A record's line is printed when its texts are scored, and the totals behind the last one.

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "commands/evaluations.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/complete/score_records.h"

namespace strata {

namespace {

using Json = nlohmann::ordered_json;

Json score_json(const RecordScore& score) {
  if (!score.choices) {
    return {{"id", score.id}, {"loglikelihood", score.loglikelihood}, {"tokens", score.tokens}};
  }
  Json json{{"id", score.id},
            {"choice", score.choices->choice},
            {"choice_by_byte", score.choices->choice_by_byte},
            {"loglikelihoods", score.choices->loglikelihoods}};
  if (score.choices->answer) json["answer"] = *score.choices->answer;
  return json;
}

void put(Json& json, const std::string& key, const Estimate& estimate) {
  json[key] = estimate.value;
  if (estimate.standard_error) json[key + "_error"] = *estimate.standard_error;
}

/// Returns what all records came to, of which so many lost tokens; empty if there is nothing to
/// say.
Json score_json(const RecordTotals& totals, std::int64_t truncated) {
  Json json = Json::object();
  if (!totals.right.empty()) {
    json["questions"] = totals.right.size();
    put(json, "accuracy", share_of(totals.right));
    put(json, "accuracy_by_byte", share_of(totals.right_by_byte));
  }
  if (totals.tokens > 0) {
    const double loss = totals.nats / static_cast<double>(totals.tokens);
    json["texts"] = totals.texts;
    json["tokens"] = totals.tokens;
    json["loss"] = loss;
    json["perplexity"] = std::exp(loss);
    json["bits_per_byte"] = totals.nats / std::numbers::ln2 / static_cast<double>(totals.bytes);
  }
  if (truncated > 0) json["truncated"] = truncated;
  return json;
}

}  // namespace

void evaluate_records(const EvaluateOptions& options, const NamedModel& model, InputLines& lines) {
  const std::int64_t positions = model.config().context_limit();
  const RecordReading how{
      .text = model.text(),
      .most_tokens = std::min(options.model.context.value_or(positions), positions),
      .truncate = options.truncate};
  const RecordSurvey all = survey_records(how, lines);
  if (all.truncated > 0) {
    log::warn("{}: {} of {} records have more than {} tokens and are cut from the left",
              lines.name(), format_count(all.truncated), format_count(all.records),
              format_count(how.most_tokens));
  }
  const auto session = load_scoring(options, model, all.longest, all.texts);
  EvaluationProgress progress(all.texts, "texts");
  RecordTotals totals;
  score_records(
      session->engine(), how, lines,
      [&](const RecordScore& score) {
        totals.add(score);
        print_json_line(score_json(score));
      },
      [&](std::int64_t more) { progress.add(more); });
  const Json summary = score_json(totals, all.truncated);
  if (!summary.empty()) print_json_line({{"summary", summary}});
}

}  // namespace strata
