// Puts the checks of the self-test together: what needs several ranks comes first, since the other
// ranks wait there.

#include "strata/doctor/self_test.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <string>
#include <utility>

#include "doctor/self_test_checks.h"
#include "strata/launch/rank_agreement.h"

namespace strata {

std::string remedy_of_wrong_numbers(BackendKind backend, std::string_view first) {
  const std::string parts =
      backend == BackendKind::kCuda
          ? "the GPU (nvidia-smi -q shows its ECC errors), its driver, or a library that is not "
            "the one of the build"
          : "memory or processor, or the compiler of this build";
  return std::string(first) + "; if it is the same each time, suspect " + parts +
         "; do not train with this program here, and report it with the output of strata doctor "
         "--self-test --json and strata --version";
}

std::vector<Finding> guarded(std::string_view name, BackendKind backend,
                             const std::function<std::vector<Finding>()>& check) {
  try {
    return check();
  } catch (const std::exception& error) {
    return {{.name = std::string(name),
             .verdict = Verdict::kBad,
             .found = std::string("ended with an error: ") + error.what(),
             .remedy = remedy_of_wrong_numbers(
                 backend, "do what the error says, if it says something, and run this again")}};
  }
}

namespace {

using Check = std::function<std::vector<Finding>(const SelfTestOptions&)>;

/// An error that all ranks have is a finding; one that a rank has alone leaves the others waiting,
/// and whoever called has to end them.
std::vector<Finding> collectives_of(const SelfTestOptions& options, Ranks& ranks) {
  try {
    return check_collectives(options, ranks);
  } catch (const AgreedError& error) {
    return guarded("collectives", options.backend,
                   [&]() -> std::vector<Finding> { throw AgreedError(error); });
  }
}

}  // namespace

BackendOptions backend_options(const SelfTestOptions& options) {
  BackendOptions made;
  made.threads = options.threads;
  return made;
}

std::vector<Finding> self_test(const SelfTestOptions& options, Ranks& ranks) {
  std::vector<Finding> all;
  const auto add = [&](std::vector<Finding> findings) {
    std::ranges::move(findings, std::back_inserter(all));
  };
  const auto begin = [&](std::string_view name) {
    if (options.work != nullptr) options.work->begin("self-test: " + std::string(name));
  };
  const auto run = [&](std::string_view name, const Check& check) {
    begin(name);
    add(guarded(name, options.backend, [&] { return check(options); }));
  };
  begin("collectives");
  add(collectives_of(options, ranks));
  if (ranks.rank() != 0) return {};
  // The program that is killed comes before this process takes the GPU, whose compute mode may let
  // only one in.
  run("kill and resume", check_kill);
  run("operators", check_operators);
  run("golden model", check_golden);
  run("streamed and resident", check_residency);
  run("save and resume", check_resume);
  return all;
}

}  // namespace strata
