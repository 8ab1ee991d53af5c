// Makes the ranks of a command. It is a source of its own, as it needs MPI, which tests of ranks in
// one process do without.

#include "strata/launch/command_ranks.h"

#include "strata/launch/rank_agreement.h"

namespace strata {

std::unique_ptr<Ranks> make_command_ranks(std::string_view command) {
  std::unique_ptr<Ranks> ranks = make_world_ranks();
  try {
    require_one_command(command, *ranks);
  } catch (const AgreedError&) {
    ranks.reset();  // they part here: one that an exception ends takes the others down
    throw;
  }
  return ranks;
}

}  // namespace strata
