// Tests the program as a launcher starts it, as several ranks: that they find what one finds, and
// that all of them end with one message where one cannot go on.

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "e2e/program.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"

namespace strata::test {

#ifdef STRATA_MPIEXEC
TEST_CASE("ranks share one run and find the same losses", "[mpi]") {
  const Folder folder;
  REQUIRE(strata(folder, train_tiny(folder, "alone", "--set run.dtype=f64")).code == 0);
  const std::vector<double> expected = losses(folder / "alone");
  for (const int ranks : {1, 4}) {
    const std::string name = "ranks" + std::to_string(ranks);
    // 2 sub-batches of 2 rows: four rows, split between the ranks.
    const int sub_batches = ranks == 1 ? 2 : 1;
    const int rows = 4 / ranks / sub_batches;
    const Outcome done = strata_on_ranks(
        folder, ranks,
        train_tiny(folder, name,
                   "--set run.dtype=f64 --set run.threads=1 --set schedule.sub_batches=" +
                       std::to_string(sub_batches) +
                       " --set schedule.rows=" + std::to_string(rows)));
    INFO(done.text);
    REQUIRE(done.code == 0);
    const std::vector<double> found = losses(folder / name);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK(std::abs(found[i] - expected[i]) < 1e-9 * expected[i]);
    }
  }
}

/// Starts two ranks, of which the second is given `more`.
Outcome strata_on_unlike_ranks(const Folder& folder, const std::string& more) {
  const std::string rank = "-n 1 " + strata_program() + " ";
  const std::string arguments = train_tiny(folder, "run", "--set run.threads=1 ");
  return run(folder, kMpiExec + rank + arguments + " : " + rank + arguments + more);
}

TEST_CASE("ranks that were given different runs are refused with the keys", "[mpi]") {
  const Folder folder;
  const Outcome refused =
      strata_on_unlike_ranks(folder, "--set run.seed=7 --set schedule.passes=3 --set run.steps=9");
  INFO(refused.text);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("run.seed: rank 0 has 1, rank 1 has 7") &&
                               ContainsSubstring("schedule.passes: rank 0 has 1, rank 1 has 3") &&
                               ContainsSubstring("run.steps: rank 0 has 4, rank 1 has 9"));
  CHECK_FALSE(fs::exists(folder / "run"));
}

TEST_CASE("ranks of different commands are refused with the commands", "[mpi]") {
  const Folder folder;
  const std::string tiny = configs_folder() + "/tiny-cpu.json";
  std::ofstream(folder / "prompts.jsonl") << R"({"tokens": [1, 2], "max_tokens": 1})";
  const Outcome refused = [&] {
    std::string ranks = kMpiExec;
    for (const std::string& command : std::vector<std::string>{
             train_tiny(folder, "run", ""),
             "generate " + goldens_folder() + "/mha --input " + (folder / "prompts.jsonl"),
             "plan " + tiny, "bench " + tiny + " --generate --prompt-tokens 8 --max-tokens 8",
             "doctor " + tiny,
             "bench " + tiny + " --set run.steps=1 --set optimizer.warmup_steps=0"}) {
      if (ranks != kMpiExec) ranks += " : ";
      ranks += "-n 1 " + strata_program() + " " + command;
    }
    return run(folder, ranks);
  }();
  INFO(refused.text);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("started for different commands") &&
                               ContainsSubstring("rank 0: train\n  rank 1: generate\n"
                                                 "  rank 2: plan\n  rank 3: bench --generate\n"
                                                 "  rank 4: doctor\n  rank 5: bench"));
  CHECK_FALSE(fs::exists(folder / "run"));
}

TEST_CASE("ranks that a command has no use for are told so", "[mpi]") {
  const Folder folder;
  const std::string tiny = configs_folder() + "/tiny-cpu.json";
  std::ofstream(folder / "prompts.jsonl") << R"({"tokens": [1, 2], "max_tokens": 1})";
  for (const auto& [command, text] : std::vector<std::pair<std::string, std::string>>{
           {"generate " + goldens_folder() + "/mha --input " + (folder / "prompts.jsonl"),
            "generate: generation runs on one rank, and a launcher has started 2"},
           {"plan " + tiny + " --ranks 2", "--ranks: a launcher has started 2 ranks"},
           {"plan " + tiny + " --ranks-per-node 3", "raise --ranks"}}) {
    const Outcome refused = strata_on_ranks(folder, 2, command);
    INFO(refused.text);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.text, ContainsSubstring(text));
  }
}

TEST_CASE("what is refused on paper is told under a launcher as well", "[mpi]") {
  const Folder folder;
  const std::string tiny = configs_folder() + "/tiny-cpu.json";
  const std::string little = " --set memory.host_limit=1MiB";
  const Outcome planned = strata_on_ranks(folder, 2, "plan " + tiny + little);
  INFO(planned.text);
  CHECK(planned.code == 3);
  CHECK_THAT(planned.text, ContainsSubstring("on all ranks: the run needs"));
  CHECK_THAT(planned.text, !ContainsSubstring("MPI_ABORT"));
  const Outcome tuned = strata_on_ranks(folder, 2, "tune " + tiny + " --tokens 1024" + little);
  INFO(tuned.text);
  CHECK(tuned.code == 3);
  CHECK_THAT(tuned.text, ContainsSubstring("ways to run it fits"));
  const Outcome measured =
      strata_on_ranks(folder, 2, "tune " + tiny + " --tokens 1024 --measure 1");
  INFO(measured.text);
  CHECK(measured.code == 2);
  CHECK_THAT(measured.text, ContainsSubstring("--measure: runs one rank"));
}

TEST_CASE("the doctor's lines say which rank they are of", "[mpi][long]") {
  const Folder folder;
  const Outcome found = strata_on_ranks(folder, 2, "doctor");
  INFO(found.text);
  std::size_t lines = 0;
  std::istringstream text(found.text);
  for (std::string line; std::getline(text, line);) {
    if (line.find(" host memory ") == std::string::npos) continue;
    ++lines;
    CHECK((line.find("[rank 0] ok") == 0 || line.find("[rank 1] ok") == 0));
  }
  CHECK(lines == 2);
}

TEST_CASE("a rank that cannot load its config ends all of them", "[mpi]") {
  const Folder folder;
  const Outcome refused = strata_on_unlike_ranks(folder, "--set run.sead=7");
  INFO(refused.text);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("rank 1: ") && ContainsSubstring("run.sead"));
  CHECK_FALSE(fs::exists(folder / "run"));
}

TEST_CASE("a rank that fails takes the others down with its exit code", "[mpi]") {
  const Folder folder;
  const Outcome failed = strata_on_ranks(
      folder, 2,
      train_tiny(folder, "run",
                 "--set data.synthetic=false --set data.train=" + (folder / "missing.bin")));
  CHECK(failed.code == 2);
  CHECK_THAT(failed.text, ContainsSubstring("on all ranks: ") && ContainsSubstring("missing.bin"));
  CHECK(failed.text.find("missing.bin") == failed.text.rfind("missing.bin"));  // told once
}

TEST_CASE("four ranks tell where each is, and a plan that fits none is refused once", "[mpi]") {
  const Folder folder;
  const Outcome refused =
      strata_on_ranks(folder, 4, train_tiny(folder, "run", "--set memory.host_limit=1MiB"));
  INFO(refused.text);
  CHECK(refused.code == 3);
  const std::string all = "on all ranks: ";
  CHECK_THAT(refused.text, ContainsSubstring(all) && ContainsSubstring("rank    0  host ") &&
                               ContainsSubstring("rank    3  host "));
  CHECK(refused.text.find("memory.host_limit") > refused.text.find(all));
  CHECK(refused.text.find(all) == refused.text.rfind(all));
}
#endif

}  // namespace strata::test
