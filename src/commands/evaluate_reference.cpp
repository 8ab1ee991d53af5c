// Stores what a model makes of the answers of a token file of pairs, beside that file.

#include <algorithm>

#include "commands/evaluations.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/output_file.h"
#include "strata/base/text.h"
#include "strata/complete/score_pairs.h"

namespace strata {

void evaluate_reference(const EvaluateOptions& options, const NamedModel& model,
                        const TokenSource& tokens) {
  if (!tokens.has_pairs()) {
    throw ConfigError("--reference: " + tokens.name() +
                      " holds no pairs of answers; name a token file that `strata tokenize` made " +
                      "of records with prompt, chosen and rejected");
  }
  const std::int64_t positions = model.config().context_limit();
  const std::int64_t most = std::min(options.model.context.value_or(positions), positions);
  const std::uint64_t hash = model.weights_hash();
  const PairList list = list_pairs(tokens, most);
  if (list.left_out > 0) {
    log::warn("{}: {} pairs with an answer of more than {} tokens are left out", tokens.name(),
              format_count(list.left_out), format_count(most));
  }
  // A folder that takes no file is known before hours of work.
  OutputFile file(reference_file_of(tokens.name()));
  const std::int64_t answers = 2 * std::ssize(list.pairs);
  const auto session = load_scoring(options, model, list.longest, answers);
  EvaluationProgress progress(answers, "answers");
  const std::vector<StoredPair> pairs =
      score_pairs(session->engine(), tokens, model.config().vocab_size, list,
                  [&](std::int64_t more) { progress.add(more); });
  write_reference(file, tokens, {.model = hash, .most_tokens = most}, pairs);
  print_json_line({{"reference", reference_file_of(tokens.name())},
                   {"pairs", pairs.size()},
                   {"left_out", list.left_out}});
}

}  // namespace strata
