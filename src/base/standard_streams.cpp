// Opens the null device in the place of each standard stream that is closed. A file that is opened
// gets the lowest descriptor that is free.

#include "strata/base/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

namespace strata {

bool hold_standard_streams() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) != -1) continue;
    const int unusable = descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (::open("/dev/null", unusable) != descriptor) return false;
  }
  return true;
}

}  // namespace strata
