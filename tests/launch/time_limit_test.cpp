// Tests when a run has to end, by its config and by SLURM, whose squeue is a script here.

#include "strata/launch/time_limit.h"

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>

#include "support/catch.h"
#include "support/patience.h"
#include "support/scratch_folder.h"

namespace strata::test {
namespace {

/// Sets variables of the environment while it lives.
class Variables {
 public:
  explicit Variables(const std::map<std::string, std::string>& values) {
    for (const auto& [name, value] : values) {
      const char* const before = std::getenv(name.c_str());
      before_[name] = before == nullptr ? std::nullopt : std::optional<std::string>(before);
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~Variables() {
    for (const auto& [name, value] : before_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

/// Asks with a squeue that is this script.
std::optional<double> asked(const ScratchFolder& folder, const std::string& script,
                            std::map<std::string, std::string> variables = {
                                {"SLURM_JOB_ID", "42"}}) {
  const std::string file = folder.write("squeue", "#!/bin/sh\n" + script + "\n");
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  variables["PATH"] = folder.file("") + ":" + std::getenv("PATH");
  const Variables set(variables);
  return slurm_left_s(kPatienceS);
}

/// The time of a process that had begun 100 s before.
struct ProcessTime {
  double since_s = 0;  ///< what has passed since then

  /// Returns clocks of this time, which outlives them.
  [[nodiscard]] TimeLimit::Clocks clocks() const {
    return {.now_s = [this] { return 5000 + since_s; }, .age_s = [this] { return 100 + since_s; }};
  }
};

}  // namespace

TEST_CASE("without a limit a run is never over") {
  CHECK_FALSE(TimeLimit(std::nullopt, std::nullopt).is_over(1e9));
}

TEST_CASE("a wall limit counts from the start of the process") {
  ProcessTime time;
  const TimeLimit limit(10, std::nullopt, time.clocks());  // 500 s are left
  CHECK_FALSE(limit.is_over(499));
  CHECK(limit.is_over(501));
  time.since_s = 200;
  CHECK_FALSE(limit.is_over(299));
  CHECK(limit.is_over(301));
}

TEST_CASE("a wall limit is one of this process's own time if nothing else is said") {
  CHECK_FALSE(TimeLimit(1e9, std::nullopt).is_over(0));
  CHECK(TimeLimit(0, std::nullopt).is_over(0));
}

TEST_CASE("the end of SLURM's job counts, with a margin, and the earlier limit wins") {
  const ProcessTime time;
  CHECK_FALSE(TimeLimit(std::nullopt, 600, time.clocks()).is_over(500));
  CHECK(TimeLimit(std::nullopt, 600, time.clocks()).is_over(590));
  CHECK(TimeLimit(3, 600, time.clocks()).is_over(90));  // 80 s are left
  CHECK_FALSE(TimeLimit(60, 600, time.clocks()).is_over(500));
}

TEST_CASE("SLURM's variable says when the job ends, and then nobody is asked") {
  const ScratchFolder folder;
  const auto seconds = [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  const std::time_t end = std::time(nullptr) + 600;
  const double begin_s = seconds();
  const auto left = asked(folder, "echo 1:00",
                          {{"SLURM_JOB_ID", "42"}, {"SLURM_JOB_END_TIME", std::to_string(end)}});
  const double end_s = seconds();
  REQUIRE(left);
  CHECK(*left >= static_cast<double>(end) - end_s - 1e-3);
  CHECK(*left <= static_cast<double>(end) - begin_s + 1e-3);
}

TEST_CASE("squeue is asked where SLURM's variable is missing or says nothing") {
  const ScratchFolder folder;
  CHECK(asked(folder, "echo 1-02:03:04") == 93784);
  CHECK(asked(folder, "echo '   2:03:04 '") == 7384);
  CHECK(asked(folder, "echo 0:09") == 9);
  CHECK(asked(folder, "echo 10:00", {{"SLURM_JOB_ID", "42"}, {"SLURM_JOB_END_TIME", "UNKNOWN"}}) ==
        600);
}

TEST_CASE("squeue is asked for one job of an array, and no shell reads what it is called") {
  const ScratchFolder folder;
  const std::string script = "echo \"$@\" > " + folder.file("asked") + "; echo 5:00";
  const auto arguments = [&](const std::map<std::string, std::string>& variables) {
    CHECK(asked(folder, script, variables) == 300);
    std::ifstream in(folder.file("asked"));
    return std::string{std::istreambuf_iterator<char>(in), {}};
  };
  CHECK(arguments({{"SLURM_JOB_ID", "42"}}) == "--noheader --jobs=42 --format=%L\n");
  CHECK(arguments(
            {{"SLURM_JOB_ID", "42"}, {"SLURM_ARRAY_JOB_ID", "40"}, {"SLURM_ARRAY_TASK_ID", "2"}}) ==
        "--noheader --jobs=40_2 --format=%L\n");
  CHECK(arguments({{"SLURM_JOB_ID", "$(exit 1); 'x'"}}) ==
        "--noheader --jobs=$(exit 1); 'x' --format=%L\n");
}

TEST_CASE("a SLURM that does not say when the job ends sets no limit") {
  const ScratchFolder folder;
  for (const std::string script :
       {"echo UNLIMITED", "echo NOT_SET", "echo INVALID", "echo N/A", "true", "exit 1",
        "echo 5:00; exit 1", "kill -9 $$", "echo 5", "echo 1-5", "echo 5:x", "echo 1:2:3:4",
        "echo 9223372036854775807-00:00:00"}) {
    INFO(script);
    CHECK_FALSE(asked(folder, script));
  }
  const Variables set({{"SLURM_JOB_ID", "42"}, {"PATH", folder.file("nowhere")}});
  CHECK_FALSE(slurm_left_s(kPatienceS));
}

TEST_CASE("outside of a job nobody is asked") {
  const ScratchFolder folder;
  CHECK_FALSE(asked(folder, "echo 5:00", {}));
}

}  // namespace strata::test
