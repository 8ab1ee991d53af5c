// Words the errors of file operations. What a user may do about an error of the system depends on
// its number alone.

#include "checkpoint/io_failure.h"

#include <cerrno>
#include <string>
#include <system_error>

#include "strata/base/error.h"
#include "strata/base/text.h"

namespace strata {
namespace {

std::string_view remedy_of(int error) {
  switch (error) {
    case ENOSPC: return "; free space on this disk, or keep fewer checkpoints (checkpoint.keep)";
    case EDQUOT:
      return "; free some of this user's quota, or keep fewer checkpoints (checkpoint.keep)";
    case EFBIG:
      return "; raise the limit of file sizes (ulimit -f), or name another disk (run.output)";
    case EROFS:
    case EACCES:
    case EPERM:
      return "; make it readable and writable for this user, or name another folder (run.output)";
    case ESTALE: return "; its server no longer knows it: mount the file system again";
    case EIO:
      return "; the disk reports a fault: see the system's log, or name another disk (run.output)";
    case EMFILE: return "; raise the limit of open files (ulimit -n)";
    case ENXIO: return "; a regular file is expected here: remove what has this name";
    case ELOOP:
      return "; no link may be here: put the file itself in its place (cp -L), or remove it";
    case ENAMETOOLONG: return "; name a folder with a shorter path (run.output)";
    case ENOTEMPTY:
    case EEXIST: return "; remove what is there, or name another folder (run.output)";
    default: return "";
  }
}

}  // namespace

void throw_io_failure(const std::filesystem::path& path, std::string_view operation, int error) {
  const std::string name = error == ENAMETOOLONG ? shortened(path.string()) : path.string();
  throw IoError(printable_name(name) + ": " + std::string(operation) + ": " +
                std::generic_category().message(error) + std::string(remedy_of(error)));
}

}  // namespace strata
