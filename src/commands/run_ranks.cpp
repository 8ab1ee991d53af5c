// Turns what a rank throws into a line of the log and an exit code, and aborts the others.

#include "commands/run_ranks.h"

#include <new>

#include "strata/base/error.h"
#include "strata/base/log.h"

namespace strata {

int on_all_ranks(const std::function<int(Ranks&)>& body) {
  const std::unique_ptr<Ranks> ranks = make_world_ranks();
  log::configure(ranks->rank(), ranks->size(), "");
  int code = 1;
  try {
    return body(*ranks);
  } catch (const Error& error) {
    log::error("{}", error.what());
    code = error.exit_code();
  } catch (const std::bad_alloc&) {
    log::error("the system refused memory; lower memory.host_limit or the model's size");
    code = OutOfMemory("").exit_code();
  } catch (const std::exception& error) {
    log::error("{}", error.what());
  }
  if (ranks->size() > 1) ranks->abort(code);
  return code;
}

}  // namespace strata
