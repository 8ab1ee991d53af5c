// Each process has a folder of its own name below the one that it is given, so that several of them
// may test at once.

#include "commands/doctor_self_test.h"

#include <unistd.h>

#include <string>
#include <system_error>

#include "strata/base/work_meter.h"
#include "strata/doctor/self_test.h"

namespace strata {

namespace {

/// A folder that goes with the object.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {
    std::filesystem::create_directory(path_, error_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!error_) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::error_code& error() const { return error_; }

 private:
  std::filesystem::path path_;
  std::error_code error_;
};

/// Returns the file of the program that runs, or nothing where the system does not say.
std::filesystem::path this_program() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored);
}

}  // namespace

std::vector<Finding> run_self_test(const std::filesystem::path& folder, Ranks& ranks) {
  const TemporaryFolder scratch(std::filesystem::absolute(folder) /
                                ("strata-self-test-" + std::to_string(::getpid())));
  WorkProgress work;
  const WorkMeter meter(work);
  std::vector<Finding> findings =
      self_test({.backend = cuda_available() ? BackendKind::kCuda : BackendKind::kCpu,
                 .scratch = scratch.path(),
                 .program = this_program(),
                 .work = &work},
                ranks);
  if (!scratch.error() || ranks.rank() != 0) return findings;
  findings.insert(findings.begin(), {.name = "folder",
                                     .verdict = Verdict::kBad,
                                     .found = scratch.path().string() +
                                              " cannot be made: " + scratch.error().message() +
                                              "; what needs files cannot be tested",
                                     .remedy = "name a folder that can be written: --folder DIR"});
  return findings;
}

}  // namespace strata
