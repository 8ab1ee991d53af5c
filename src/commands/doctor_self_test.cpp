// Each process has a folder of its own below the one that it is given, so that several of them may
// test at once, and none of them writes where somebody else has left links.

#include "commands/doctor_self_test.h"

#include <optional>
#include <string>
#include <system_error>

#include "strata/base/error.h"
#include "strata/base/temporary.h"
#include "strata/base/work_meter.h"
#include "strata/doctor/self_test.h"

namespace strata {

namespace {

/// Returns the file of the program that runs, or nothing where the system does not say.
std::filesystem::path this_program() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored);
}

}  // namespace

std::vector<Finding> run_self_test(const std::filesystem::path& folder, Ranks& ranks) {
  const std::filesystem::path name = std::filesystem::absolute(folder) / "strata-self-test";
  std::optional<TemporaryFolder> scratch;
  std::string why;
  try {
    scratch.emplace(name);
  } catch (const IoError& error) {
    why = error.what();
  }
  WorkProgress work;
  const WorkMeter meter(work);
  std::vector<Finding> findings =
      self_test({.backend = cuda_available() ? BackendKind::kCuda : BackendKind::kCpu,
                 // What needs files finds that it cannot make them, under a name that nobody has.
                 .scratch = scratch ? scratch->path() : name_beside(name, "none"),
                 .program = this_program(),
                 .work = &work},
                ranks);
  if (scratch || ranks.rank() != 0) return findings;
  findings.insert(findings.begin(), {.name = "folder",
                                     .verdict = Verdict::kBad,
                                     .found = why + "; what needs files cannot be tested",
                                     .remedy = "name a folder that can be written: --folder DIR"});
  return findings;
}

}  // namespace strata
