// Sees to it that ranks which train together were given one run. Each tells the others its config,
// its program and what its files are; whoever differs is named before anything is allocated,
// because ranks that differ would wait for each other for ever or train on different things.
// Memory limits, folders and threads may differ, and so the plan is compared as well.

#pragma once

#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/comm/ranks.h"
#include "strata/config/config.h"

namespace strata {

/// An error that all ranks throw at the same place with the same text, which says whose it is. Rank
/// 0 alone needs to tell it, and nobody has to be taken down.
class AgreedError : public Error {
 public:
  AgreedError(const std::string& text, int exit_code) : Error(text), exit_code_(exit_code) {}
  [[nodiscard]] int exit_code() const noexcept override { return exit_code_; }

 private:
  int exit_code_;
};

/// Throws AgreedError, which names the commands of the ranks, such as "train", if they are not all
/// the same. All ranks call it; it blocks.
void require_one_command(std::string_view command, Ranks& ranks);

/// Runs on every rank what may fail on some; `body` talks to no other rank. If it throws on any,
/// all throw AgreedError, which has each failure once with its ranks ("on all ranks: ..."), and the
/// exit code of the lowest rank that failed. A rank that is alone throws what `body` throws. All
/// ranks call it; it blocks.
void fail_together(Ranks& ranks, const std::function<void()>& body);
/// Runs on every rank what may fail on one alone while others wait for it. An error that all ranks
/// throw at the same place (known_to_all) comes out, and so does any error of a rank that is alone.
/// Any other one does not: it is logged and takes all ranks down with its exit code while all that
/// `body` has left in flight is still there, because to end that may take the other ranks.
void fail_for_all(Ranks& ranks, const std::function<void()>& body);
/// Returns whether all ranks have this error where one has it: AgreedError, Interrupted and
/// DamagedCheckpoint.
[[nodiscard]] bool known_to_all(const std::exception& error);
/// Returns the failures of all ranks, by rank, each once with the ranks that have it; a rank
/// without one has an empty text. Returns nothing if no rank has.
[[nodiscard]] std::string failures_text(const std::vector<std::string>& failures);
/// Returns ranks in words: "rank 3", "ranks 0, 2-5".
[[nodiscard]] std::string ranks_text(const std::vector<int>& ranks);

/// Returns what all ranks must have alike: the keys of the config that no rank may choose for
/// itself, the program, and lengths and samples of the files of data and model. Throws IoError for
/// a file that cannot be read.
[[nodiscard]] std::vector<FieldText> facts_of_run(const RunConfig& config);
/// Returns what all ranks must have decided alike: the resolved keys that say which blocks travel
/// between ranks, and when.
[[nodiscard]] std::vector<FieldText> facts_of_plan(const RunConfig& resolved);

/// Compares every rank's facts with those of rank 0 and returns a line for each that differs, with
/// both values: the same text on all ranks, empty if they agree. All ranks call it.
[[nodiscard]] std::string disagreement(const std::vector<FieldText>& own, Ranks& ranks);
/// Returns the texts of all ranks, by rank. All ranks call it.
[[nodiscard]] std::vector<std::string> gather_texts(const std::string& own, Ranks& ranks);

}  // namespace strata
