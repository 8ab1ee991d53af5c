// A rank's error becomes a line of its log and an exit code here. With several ranks the others are
// aborted with that code, because they may wait for this one; only before the body begins do all
// ranks know of each other's failures, and end by themselves.

#include "commands/run_ranks.h"

#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/log.h"
#include "strata/run/rank_agreement.h"

namespace strata {
namespace {

/// Loads the config on every rank. Throws ConfigError on all of them, with the same text, if one
/// cannot or if they differ.
RunConfig load_alike(const LoadConfig& load, Ranks& ranks) {
  std::optional<RunConfig> config;
  std::vector<FieldText> facts;
  std::string failure;
  try {
    config = load();
    facts = facts_of_run(*config);
  } catch (const std::exception& error) {
    failure = error.what();
  }
  const std::vector<std::string> failures = gather_texts(failure, ranks);
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (failures[rank].empty()) continue;
    throw ConfigError("rank " + std::to_string(rank) + ": " + failures[rank]);
  }
  const std::string differences = disagreement(facts, ranks);
  if (!differences.empty()) {
    throw ConfigError(
        "the ranks were not given the same run; start all of them with one program, one config and "
        "the same files:" +
        differences);
  }
  return *std::move(config);
}

/// Runs `body`; an error is logged and becomes the exit code of all ranks.
int run_body(Ranks& ranks, const std::function<int()>& body) {
  try {
    return body();
  } catch (const std::exception&) {
    const Failure failure = current_failure();
    log::error("{}", failure.text);
    if (ranks.size() > 1) ranks.abort(failure.exit_code);
    return failure.exit_code;
  }
}

}  // namespace

int end_together(Ranks& ranks, const std::function<int()>& body) {
  return ranks.size() == 1 ? body() : run_body(ranks, body);
}

int on_all_ranks(const LoadConfig& load, const std::function<int(Ranks&, const RunConfig&)>& body) {
  const std::unique_ptr<Ranks> ranks = make_world_ranks();
  log::configure(ranks->rank(), ranks->size(), "");
  std::optional<RunConfig> config;
  if (ranks->size() == 1) {
    config = load();
  } else {
    try {
      config = load_alike(load, *ranks);
    } catch (const ConfigError& error) {
      if (ranks->rank() == 0) log::error("{}", error.what());
      ranks->barrier(Channel::kSubmit);  // a launcher may end the others when the first one ends
      return error.exit_code();
    }
  }
  return run_body(*ranks, [&] { return body(*ranks, *config); });
}

}  // namespace strata
