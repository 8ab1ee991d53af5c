// Reads facts and judges them, one room of the machine after the other.

#include "strata/doctor/examine_machine.h"

#include "strata/base/log.h"
#include "strata/base/version.h"

namespace strata {

std::vector<Finding> examine_machine(const MachineSources& /*sources*/) {
  const BuildInfo info = build_info();
  return {{.name = "program",
           .found = fmt::format("strata {}, backends {}, GPU code {}, MPI {}, cuDNN {}",
                                version_text(info), info.backends, info.gpu_architectures, info.mpi,
                                info.cudnn)}};
}

}  // namespace strata
