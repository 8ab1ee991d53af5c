// A rank's error becomes a line of its log and an exit code here. With several ranks the others are
// aborted with that code, because they may wait for this one; where all ranks know of an error
// (known_to_all), rank 0 tells it and all end by themselves.

#include "strata/launch/run_ranks.h"

#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/log.h"
#include "strata/base/stop_signals.h"
#include "strata/launch/backend_choice.h"
#include "strata/launch/command_ranks.h"
#include "strata/launch/rank_agreement.h"

namespace strata {
namespace {

/// Loads a config that this program can run.
RunConfig load_runnable(const LoadConfig& load) {
  RunConfig config = load();
  require_built(config.run.backend, "run.backend");
  return config;
}

/// Loads the config on every rank. Throws AgreedError on all of them if one cannot or if they
/// differ.
RunConfig load_alike(const LoadConfig& load, Ranks& ranks) {
  std::optional<RunConfig> config;
  std::vector<FieldText> facts;
  fail_together(ranks, [&] {
    config = load_runnable(load);
    facts = facts_of_run(*config);
  });
  const std::string differences = disagreement(facts, ranks);
  if (!differences.empty()) {
    throw AgreedError(
        "the ranks were not given the same run; start all of them with one program, one config and "
        "the same files:" +
            differences,
        ConfigError("").exit_code());
  }
  return *std::move(config);
}

/// Runs `body`; an error is logged and becomes the exit code of all ranks.
int run_body(Ranks& ranks, const std::function<int()>& body) {
  try {
    int code = 0;
    fail_for_all(ranks, [&] { code = body(); });
    return code;
  } catch (const std::exception&) {  // that all ranks have
    const Failure failure = current_failure();
    if (ranks.rank() == 0) log::error("{}", failure.text);
    ranks.barrier(Channel::kSubmit);  // a launcher may end the others when the first one ends
    return failure.exit_code;
  }
}

}  // namespace

int end_together(Ranks& ranks, const std::function<int()>& body) {
  return ranks.size() == 1 ? body() : run_body(ranks, body);
}

int on_all_ranks(std::string_view command, const LoadConfig& load,
                 const std::function<int(Ranks&, const RunConfig&)>& body) {
  const std::unique_ptr<Ranks> ranks = make_command_ranks(command);
  log::configure(ranks->rank(), ranks->size(), "");
  if (ranks->size() == 1) {
    const RunConfig config = load_runnable(load);
    return run_body(*ranks, [&] { return body(*ranks, config); });
  }
  const int code = run_body(*ranks, [&] { return body(*ranks, load_alike(load, *ranks)); });
  outlast_stops();  // no rank ends before all of them are here: MPI_Finalize waits for them
  return code;
}

}  // namespace strata
