#include "train/run_ranks.h"

#include <new>

#include "strata/base/error.h"
#include "strata/base/log.h"

namespace strata {

int on_all_ranks(const std::function<int(Communicator&)>& body) {
  const std::unique_ptr<Communicator> ranks = make_world_communicator();
  if (ranks->size() == 1) return body(*ranks);
  int code = 1;
  try {
    return body(*ranks);
  } catch (const Error& error) {
    log::error("rank {}: {}", ranks->rank(), error.what());
    code = error.exit_code();
  } catch (const std::bad_alloc&) {
    log::error("rank {}: out of host memory", ranks->rank());
    code = OutOfMemory("").exit_code();
  } catch (const std::exception& error) {
    log::error("rank {}: {}", ranks->rank(), error.what());
  }
  ranks->abort(code);
  return code;
}

}  // namespace strata
