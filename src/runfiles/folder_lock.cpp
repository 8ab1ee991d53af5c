// Locks a run folder. RunFolder takes the lock before it changes anything. The file says which
// process on which host has it, for the message to whom it is refused, and whom to wait for.

#include "runfiles/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/log.h"
#include "strata/base/text.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kProcess = "process ";

std::string host_name() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return host.data();
}

/// Returns who has a lock, as that process wrote it: "process 12 on HOST".
std::string holder(const fs::path& lock) {
  constexpr std::size_t kMostBytes = 4096;
  try {
    const std::string text = read_text_file(lock, kMostBytes, Links::kRefuse);
    if (!text.empty()) return text.substr(0, text.find('\n'));
  } catch (const IoError&) {  // somebody else's file
  }
  return "another process";
}

/// Tells whether a holder is a process of this host that is about to be gone: one that the kernel
/// has begun to take down (PF_EXITING among the flags of proc(5), /proc/PID/stat).
bool is_ending(std::string_view holder) {
  if (!holder.starts_with(kProcess) || !holder.ends_with(" on " + host_name())) return false;
  holder.remove_prefix(kProcess.size());
  // Anybody may have written this: a path in the place of the number would lead to another file.
  const std::string_view pid = holder.substr(0, holder.find(' '));
  if (pid.empty() || pid.find_first_not_of("0123456789") != pid.npos) return false;
  std::ifstream file("/proc/" + std::string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return false;
  const std::size_t name_end = line.rfind(')');  // of the second field, which may hold anything
  if (name_end == line.npos) return false;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  constexpr int kFieldsBeforeFlags = 6;  // state, parent, group, session, terminal, its group
  for (int i = 0; i < kFieldsBeforeFlags; ++i) fields >> skipped;
  unsigned long flags = 0;
  constexpr unsigned long kExiting = 0x4;
  return (fields >> flags) && (flags & kExiting) != 0;
}

/// Tries to lock until it works, or the holder has been there for two seconds without ending.
/// Returns whether it worked; errno says why not.
bool wait_for_lock(int descriptor, const fs::path& file, const FolderWait& wait) {
  constexpr double kPatienceS = 2;
  double ending_s = wait.clock();  // when the holder was last seen to end
  bool told = false;
  while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return false;
    const std::string who = holder(file);
    if (is_ending(who)) ending_s = wait.clock();
    if (wait.clock() - ending_s > kPatienceS) {
      errno = EWOULDBLOCK;
      return false;
    }
    if (!told) log::info("waiting for {}, which has the folder", who);
    told = true;
    wait.pause();
  }
  return true;
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder, const FolderWait* wait) {
  const fs::path file = folder / ".lock";
  descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor_ < 0) {
    const std::error_code why(errno, std::generic_category());
    throw IoError("run.output: cannot write to the folder " + folder.string() + ": " +
                  why.message());
  }
  const bool locked = wait != nullptr ? wait_for_lock(descriptor_, file, *wait)
                                      : ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
  if (!locked) {
    const int why = errno;
    if (why == EWOULDBLOCK) {
      ::close(descriptor_);
      throw ConfigError("run.output: " + folder.string() + " is in use by " + holder(file) +
                        "; name another folder with --output, or wait until that run has ended");
    }
    log::warn("{}: cannot be locked: {}; take care that no other run writes to this folder",
              file.string(), std::strerror(why));
    return;
  }
  // Who holds it is for people and for is_ending() alone; the lock counts, not what stands there.
  const std::string text =
      std::string(kProcess) + std::to_string(getpid()) + " on " + host_name() + "\n";
  if (::ftruncate(descriptor_, 0) != 0 || ::write(descriptor_, text.data(), text.size()) < 0) {
    log::debug("{}: cannot be written: {}", file.string(), std::strerror(errno));
  }
}

FolderLock::~FolderLock() { ::close(descriptor_); }

}  // namespace strata
