// Tests runs for which the system has too few threads, addresses or memory: each ends, with the
// limit that was reached, and none waits for a thread that never started.

#include <cstddef>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "base/control_groups.h"
#include "e2e/saved_runs.h"
#include "support/catch.h"
#include "support/places.h"

namespace strata::test {
namespace {

/// Trains in a shell that `limit` has limited before. Whoever hangs is ended, which is a code of
/// its own.
Outcome train_limited(const Folder& folder, const std::string& limit,
                      const std::string& more = "") {
  fs::remove_all(folder / "run");
  return run(folder, kUnlessItHangs + "sh -c '" + limit + " && exec " + strata_program() + " " +
                         train_tiny(folder, "run", "--set run.threads=2 " + more) + "'");
}

/// A control group for processes that join it, below one of this process's. Only some users and
/// machines allow one: it says why there is none.
class ControlGroup {
 public:
  /// `files` are the names that the limit has in the versions of groups.
  ControlGroup(const std::string& controller, const std::vector<std::string>& files) {
    for (const fs::path& own : control_groups(controller)) {
      std::error_code error;
      const fs::path made = own / ("strata_test_" + std::to_string(::getpid()));
      if (!fs::is_directory(own, error) || !fs::create_directory(made, error)) {
        why_not_ = made.string() + " cannot be made";
        if (error) why_not_ += ": " + error.message();
        continue;
      }
      folder_ = made;
      for (const std::string& file : files) {
        if (fs::exists(made / file)) limit_ = made / file;
      }
      if (!limit_.empty()) return;
      why_not_ = made.string() + " has no limit";
      leave();
    }
  }
  ~ControlGroup() { leave(); }
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;

  /// Returns whether there is such a group; else it says why not.
  [[nodiscard]] bool made() const {
    if (limit_.empty()) WARN("skipped: " << why_not_);
    return !limit_.empty();
  }
  void limit(std::size_t value) {
    std::ofstream out(limit_);
    REQUIRE(out << value << std::flush);
  }
  [[nodiscard]] std::string folder() const { return folder_.string(); }
  /// Returns the shell command by which a shell joins.
  [[nodiscard]] std::string join() const { return "echo $$ > " + folder() + "/cgroup.procs"; }

 private:
  void leave() {
    if (folder_.empty()) return;
    std::error_code busy;  // while who was in it goes
    if (!comes_to_be([&] { return fs::remove(folder_, busy); })) {
      WARN(folder_ << " is left: " << busy.message());
    }
    folder_.clear();
  }

  fs::path folder_;
  fs::path limit_;
  std::string why_not_ = "this process is in no control group";
};

}  // namespace

TEST_CASE("a run with too few addresses ends, by the limit that its threads or memory reach") {
  if (kSanitized) {
    WARN("skipped: sanitizers take more addresses than any limit leaves");
    return;
  }
  const Folder folder;
  const auto train_within = [&](int mib) {
    return train_limited(folder, "ulimit -v " + std::to_string(mib * 1024));
  };
  const auto starts_within = [&](int mib) {
    const std::string limit = "ulimit -v " + std::to_string(mib * 1024);
    return run(folder, "sh -c '" + limit + " && exec " + strata_program() + " --version'").code ==
           0;
  };
  constexpr int kPlenty = 4096;
  int least = kPlenty;  // in which it starts: libraries and the runtime differ between machines
  for (int step = kPlenty / 2; step >= 4; step /= 2) {
    if (starts_within(least - step)) least -= step;
  }
  int threads_refused = 0;
  // From where no thread can start to where the memory of the run is what is missing.
  for (int mib = least; mib <= least + 64; mib += 8) {
    const Outcome outcome = train_within(mib);
    INFO(mib << " MiB: " << outcome.text);
    CHECK((outcome.code == 0 || outcome.code == 3));
    if (outcome.code != 3) continue;
    CHECK_THAT(outcome.text, ContainsSubstring("(ulimit -v)"));
    if (outcome.text.find("cannot start the thread \"") != std::string::npos) ++threads_refused;
  }
  CHECK(threads_refused > 0);
  CHECK(train_within(kPlenty).code == 0);
}

TEST_CASE("what has too few addresses to be planned is not taken for what does not fit") {
  if (kSanitized) {
    WARN("skipped: sanitizers take more addresses than any limit leaves");
    return;
  }
  const Folder folder;
  constexpr int kGiB = 1 << 20;  // of ulimit's KiB
  const std::string planned = " && exec " + strata_program() + " plan " + configs_folder() +
                              "/llama-7b.json --gpu H200 --host-memory 256GiB";
  const auto plan_within = [&](int gib) {
    return run(folder, "sh -c 'ulimit -v " + std::to_string(gib * kGiB) + planned + "'");
  };
  CHECK(plan_within(1024).code == 0);
  const Outcome refused = plan_within(4);
  INFO(refused.text);
  CHECK(refused.code == 3);
  CHECK_THAT(refused.text, ContainsSubstring("a plan needs ") &&
                               ContainsSubstring("; this process may have 4 GiB of addresses "
                                                 "(ulimit -v). Raise that limit"));
}

TEST_CASE("a run in a control group of few processes ends, and names the group") {
  if (kSanitized) {
    WARN("skipped: the search for leaks starts a process of its own");
    return;
  }
  const Folder folder;
  ControlGroup group("pids", {"pids.max"});
  if (!group.made()) return;
  for (const std::size_t most : {1, 4, 7}) {  // no room for a worker, a lane, the last lane
    group.limit(most);
    const Outcome outcome = train_limited(folder, group.join());
    INFO(outcome.text);
    CHECK(outcome.code == 3);
    CHECK_THAT(outcome.text, ContainsSubstring("cannot start the thread \""));
    CHECK_THAT(outcome.text, ContainsSubstring("pids.max of the control group " + group.folder() +
                                               " is " + std::to_string(most)));
  }
  group.limit(64);
  CHECK(train_limited(folder, group.join()).code == 0);
}

TEST_CASE("a run in a control group of little memory is refused by the group's limit", "[long]") {
  if (kSanitized) {
    WARN("skipped: sanitizers take more memory than the group has");
    return;
  }
  const Folder folder;
  ControlGroup group("memory", {"memory.max", "memory.limit_in_bytes"});
  if (!group.made()) return;
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  group.limit(48 * kMiB);
  const std::string large =
      "--set model.num_hidden_layers=128 --set model.hidden_size=64 --set data.sequence_length=8";
  const Outcome refused = train_limited(folder, group.join(), large);
  INFO(refused.text);
  CHECK(refused.code == 3);
  CHECK_THAT(refused.text, ContainsSubstring("the run needs "));
  CHECK_THAT(refused.text, ContainsSubstring("the control group " + group.folder() + " has "));
  group.limit(1024 * kMiB);
  CHECK(train_limited(folder, group.join(), large).code == 0);
}

}  // namespace strata::test
