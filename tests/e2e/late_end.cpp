// Loaded into a program (LD_PRELOAD), it lets one rank of a job end later than the others:
// - LATE_RANK: on this rank of mpirun or srun;
// - LATE_MS: how long it lives on after MPI_Finalize.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

extern "C" int MPI_Finalize() {
  const int code = reinterpret_cast<int (*)()>(dlsym(RTLD_NEXT, "MPI_Finalize"))();
  const char* const own = std::getenv("PMIX_RANK");
  const char* const late = std::getenv("LATE_RANK");
  const char* const ms = std::getenv("LATE_MS");
  if (own != nullptr && late != nullptr && ms != nullptr && std::string(own) == late) {
    usleep(static_cast<useconds_t>(1000 * std::atol(ms)));
  }
  return code;
}
