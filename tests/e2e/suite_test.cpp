// Tests `bench --suite` and `bench --compare` as users start them: suites of the tiny model, with
// rows that fail in each way that rows fail, and suites that are killed and gone on with.

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "e2e/saved_runs.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"

namespace strata::test {

namespace {

const std::string kTiny = configs_folder() + "/tiny-cpu.json";
const std::string kShort = R"("set": ["run.steps=2", "optimizer.warmup_steps=0",
  "data.sequence_length=32", "run.threads=1"])";

/// Writes a suite of rows, each the members that follow its name, and returns its file.
std::string write_suite(const Folder& folder, const std::vector<std::string>& rows,
                        const std::string& more = "") {
  std::string text = "{" + more + R"("rows": [)";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += (i == 0 ? "" : ", ") + ("{\"config\": \"" + kTiny + "\", ") + rows[i] + "}";
  }
  std::ofstream(folder / "suite.json") << text << "]}";
  return folder / "suite.json";
}

/// Writes an executable file that stands for a program of the machine.
void write_program(const std::string& file, const std::string& text) {
  fs::create_directories(fs::path(file).parent_path());
  std::ofstream(file) << "#!/bin/sh\n" << text;
  fs::permissions(file, fs::perms::owner_all);
}

/// Returns how many folders of suites' own are left.
std::ptrdiff_t folders_left(const Folder& folder) {
  return std::ranges::count_if(fs::directory_iterator(folder / ""), [](const auto& entry) {
    const std::string name = entry.path().filename();
    return entry.is_directory() &&
           (name.starts_with("strata-suite-") || name.find(".json.run-") != std::string::npos);
  });
}

/// The results of a suite that was measured elsewhere.
std::string results(const std::vector<double>& tokens_per_s, const std::string& commit) {
  nlohmann::json runs = nlohmann::json::array();
  for (const double speed : tokens_per_s) {
    runs.push_back({{"result", {{"step_s_each", {1}}, {"tokens_per_s", speed}}}});
  }
  return json_text(nlohmann::json{
      {"strata_suite", 1},
      {"suite", "s"},
      {"title", ""},
      {"provenance", {{"version", "1"}, {"commit", commit}}},
      {"rows", {{{"name", "a"}, {"config", nlohmann::json::object()}, {"runs", runs}}}}});
}

}  // namespace

TEST_CASE("a suite lists its rows as commands, and says what is wrong before it measures") {
  const Folder folder;
  const std::string suite = write_suite(folder, {R"("name": "a", "title": "first", )" + kShort,
                                                 R"("name": "b", "generate": {"prompts": 2})"});
  const Outcome listed =
      strata(folder, "bench --suite " + suite + " --list --rows b --set run.threads=1");
  CHECK(listed.code == 0);
  CHECK_THAT(listed.text, ContainsSubstring("strata bench " + kTiny + " --generate --prompts 2 "));
  CHECK_THAT(listed.text, ContainsSubstring("--set run.threads=1"));
  CHECK_THAT(listed.text, !ContainsSubstring("first"));
  const std::string keys = folder / "keys.json";
  std::ofstream(keys) << R"({"rows": [{"name": "bad", "config": ")" << kTiny
                      << R"(", "set": ["run.step=1"]}]})";
  std::ofstream(folder / "mine.txt") << "mine";
  struct Case {
    std::string arguments;
    std::string says;
  };
  for (const Case& c : std::vector<Case>{
           {"bench --suite " + keys, keys + ": row bad: "},
           {"bench --suite " + keys, "did you mean run.steps?"},
           {"bench --suite " + suite + " --rows c", "has no row \"c\"; its rows are a, b"},
           {"bench --suite " + suite + " --set run.steps=0 --list", "run.steps: must be from 1"},
           {"bench --suite " + (folder / "none.json"), "none.json"},
           {"bench --suite " + suite + " --json " + (folder / "mine.txt"), "add --resume"},
           {"bench --suite " + suite + " --overwrite --json " + (folder / "mine.txt"),
            "is not JSON"},
           {"bench --suite " + suite + " --markdown " + (folder / "mine.txt"),
            "is no table of a suite"},
           {"bench " + kTiny + " --suite " + suite, "excludes"},
           {"bench --suite " + suite + " --generate", "excludes"},
           {"bench " + kTiny + " --rows a", "requires --suite"},
           {"bench --suite " + suite + " --resume", "requires --json"},
           {"bench", "config is required"},
           {"bench --compare " + suite, "2 required"},
           {"bench --compare " + suite + " " + suite, "holds no results"}}) {
    CAPTURE(c.arguments);
    const Outcome refused = strata(folder, c.arguments);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.text, ContainsSubstring(c.says));
  }
  CHECK(read_file(folder / "mine.txt") == "mine");
}

TEST_CASE("compare tells changes from noise, and fails below a ratio") {
  const Folder folder;
  std::ofstream(folder / "a.json") << results({100, 99, 101}, "one");
  std::ofstream(folder / "b.json") << results({99, 98, 100}, "two");
  std::ofstream(folder / "c.json") << results({90, 89, 91}, "one");
  const std::string compare = "bench --compare " + (folder / "a.json") + " ";
  const Outcome same = strata(folder, compare + (folder / "b.json") + " --fail-below 1");
  INFO(same.text);
  CHECK(same.code == 0);
  CHECK_THAT(same.text, ContainsSubstring(" 0.990 | +-0.028 | within noise |"));
  CHECK_THAT(same.text, ContainsSubstring("- commit: \"one\" -> \"two\""));
  const Outcome slower =
      strata(folder, compare + (folder / "b.json") + " " + (folder / "c.json") + " --fail-below 1");
  CHECK(slower.code == 1);
  CHECK_THAT(slower.text, ContainsSubstring("c.json: a (0.900)"));
  CHECK_THAT(slower.text, ContainsSubstring("slower |"));
  CHECK(strata(folder, compare + (folder / "c.json")).code == 0);
  CHECK(strata(folder, compare + (folder / "c.json") + " --fail-below 0.8").code == 0);
}

TEST_CASE("a suite writes through no link that others left under the names of its files") {
  const Folder folder;
  const std::string suite = write_suite(folder, {R"("name": "good", )" + kShort});
  std::ofstream(folder / "precious") << "text";
  const std::string link = "ln -s " + (folder / "precious") + " ";
  // The number of the process is that of the shell which becomes it.
  const Outcome measured = run(folder, "env TMPDIR=" + (folder / "") + " sh -c '" + link +
                                           (folder / "strata-suite-$$.json") + "; exec " +
                                           strata_program() + " bench --suite " + suite + "'");
  INFO(measured.text);
  CHECK(measured.code == 0);
  fs::create_symlink(folder / "precious", folder / "out.json.run");
  CHECK(strata(folder, "bench --suite " + suite + " --json " + (folder / "out.json")).code == 0);
  CHECK(read_file(folder / "precious") == "text");
  CHECK(folders_left(folder) == 0);
}

TEST_CASE("a suite measures in turns, and says of each row what it reached or why not", "[long]") {
  const Folder folder;
  const std::string suite =
      write_suite(folder,
                  {R"("name": "good", "title": "steps", )" + kShort,
                   R"("name": "unfit", "set": ["memory.host_limit=1MiB"])",
                   R"("name": "words", "generate": {"prompts": 2, "prompt_tokens": 4,
                              "max_tokens": 4}, "repeats": 1)",
                   R"("name": "late", "limit_minutes": 0.02,
                              "set": ["run.steps=1000000000"], "repeats": 1)"},
                  R"("repeats": 2, )");
  write_program(folder / "bin/nvidia-smi", "echo '570.1, NVIDIA H200, 143771 MiB, 700.00 W'\n");
  const std::string json = folder / "out.json";
  const Outcome measured =
      run(folder, "PATH=" + (folder / "bin") + ":$PATH " + strata_program() + " bench --suite " +
                      suite + " --json " + json + " --markdown " + (folder / "out.md"));
  INFO(measured.text);
  CHECK(measured.code == 1);
  CHECK_THAT(measured.text, ContainsSubstring("rows that do not fit this machine: unfit"));
  CHECK_THAT(measured.text, ContainsSubstring("rows of which runs failed: late"));
  CHECK(measured.text.find("good, run 1 of 2") < measured.text.find("unfit, run 1 of 2"));
  CHECK(measured.text.find("late, run 1 of 1") < measured.text.find("good, run 2 of 2"));
  CHECK_THAT(measured.text, !ContainsSubstring("unfit, run 2"));  // it would fail again
  const nlohmann::json out = read_json(json);
  const nlohmann::json& good = out["rows"][0];
  REQUIRE(good["runs"].size() == 2);
  CHECK(good["runs"][0]["result"]["tokens_per_s"].get<double>() > 0);
  CHECK(good["spread"].get<double>() >= 0);
  CHECK(good["config"]["run.steps"] == 2);
  CHECK_THAT(out["rows"][1]["runs"][0]["error"].get<std::string>(),
             ContainsSubstring("the limit is 1 MiB (memory.host_limit)"));
  CHECK(out["rows"][1]["runs"][0]["exit_code"] == 3);
  CHECK(out["rows"][2]["runs"][0]["result"]["generated_tokens"] == 8);
  CHECK_THAT(out["rows"][3]["runs"][0]["error"].get<std::string>(),
             ContainsSubstring("did not end within 0.02 minutes"));
  CHECK(out["provenance"]["driver"] == "570.1");
  CHECK(out["provenance"]["gpus"][0] == "NVIDIA H200, 143771 MiB, 700.00 W");
  CHECK(folders_left(folder) == 0);
  const std::string table = read_file(folder / "out.md");
  CHECK_THAT(measured.text, ContainsSubstring(table));
  CHECK_THAT(table, ContainsSubstring("| unfit | does not fit |"));
  CHECK_THAT(table, ContainsSubstring("driver 570.1"));
  // The command of a row measures the row alone.
  const std::string command = good["command"];
  REQUIRE(command.starts_with("strata bench "));
  CHECK(strata(folder, command.substr(7) + " --json " + (folder / "alone.json")).code == 0);
  CHECK(read_json(folder / "alone.json")["tokens_per_step"] ==
        good["runs"][0]["result"]["tokens_per_step"]);
}

TEST_CASE("the log of a suite says of each run what begins, and what came of it after how long",
          "[long]") {
  const Folder folder;
  const std::string suite = write_suite(
      folder,
      {R"("name": "good", "title": "two steps", )" + kShort,
       R"("name": "unfit", "set": ["run.steps=3", "memory.host_limit=1MiB"])",
       R"("name": "words", "generate": {"prompts": 2, "prompt_tokens": 4, "max_tokens": 4})"},
      R"("repeats": 1, )");
  const Outcome log = run(folder, "sh -c '" + strata_program() + " bench --suite " + suite + " > " +
                                      (folder / "table") + "'");
  INFO(log.text);
  std::size_t at = 0;
  for (const std::string line : {
           "row 1 of 3: good, run 1 of 1 (1 of 3 in all): two steps; 2 step(s) with rows of 32 "
           "tokens",
           "row 1 of 3: good, run 1 of 1: ",
           " tokens/s after ",
           "row 2 of 3: unfit, run 1 of 1 (2 of 3 in all): 3 step(s) with rows of ",
           "row 2 of 3: unfit, run 1 of 1: failed after ",
           " s with exit code 3: ",
           "row 3 of 3: words, run 1 of 1 (3 of 3 in all): 2 prompt(s) of 4 tokens, 4 drawn after "
           "each",
           "row 3 of 3: words, run 1 of 1: ",
           " tokens/s after ",
       }) {
    INFO(line);
    const std::size_t found = log.text.find(line, at);
    REQUIRE(found != std::string::npos);
    at = found + line.size();
  }
  CHECK(read_file(folder / "table").starts_with("Suite `suite`"));
  CHECK_THAT(read_file(folder / "table"), !ContainsSubstring("row 1 of 3"));
}

TEST_CASE("the log of a benchmark says what is under way, its results stand apart", "[long]") {
  const Folder folder;
  const std::string sizes = " --set run.threads=1 --set data.sequence_length=32";
  // What is measured, and what is said meanwhile: of training each step.
  for (const auto& [what, progress] : std::vector<std::pair<std::string, std::string>>{
           {sizes + " --set run.steps=2 --set optimizer.warmup_steps=0", "[info] step 2 of 2: "},
           {sizes + " --generate --prompts 2 --prompt-tokens 4 --max-tokens 4", "prompts of "}}) {
    INFO(what);
    const Outcome log = run(folder, "sh -c '" + strata_program() + " bench " + kTiny + what +
                                        " > " + (folder / "table") + "'");
    INFO(log.text);
    REQUIRE(log.code == 0);
    std::size_t at = 0;
    for (const std::string line :
         {"[info] planning and allocating a model of ", "[info] ready after ", "[info] warming up",
          "[info] warm after ", "; measuring 2 ", progress.c_str(), "[info] measured ",
          " tokens/s"}) {
      INFO(line);
      const std::size_t found = log.text.find(line, at);
      REQUIRE(found != std::string::npos);
      at = found + line.size();
    }
    CHECK_THAT(read_file(folder / "table"), ContainsSubstring("tokens/s  "));
    CHECK_THAT(read_file(folder / "table"), !ContainsSubstring("warm"));
  }
}

TEST_CASE("a suite whose every row has figures ends with 0, one that does not fit with 3",
          "[long]") {
  const Folder folder;
  const std::string suite = write_suite(
      folder,
      {R"("name": "good", )" + kShort, R"("name": "unfit", "set": ["memory.host_limit=1MiB"])"},
      R"("repeats": 1, )");
  CHECK(strata(folder, "bench --suite " + suite + " --rows good").code == 0);
  CHECK(strata(folder, "bench --suite " + suite).code == 3);
}

TEST_CASE("a row whose process is killed costs its own figures alone", "[long]") {
  const Folder folder;
  const std::string suite = write_suite(
      folder, {R"("name": "a", )" + kShort, R"("name": "b", )" + kShort}, R"("repeats": 1, )");
  // A launcher that kills the first of the programs that it is told to start.
  write_program(folder / "launch", "if [ ! -e " + (folder / "killed") + " ]; then touch " +
                                       (folder / "killed") + "; kill -9 $$; fi\nexec \"$@\"\n");
  const std::string json = folder / "out.json";
  const std::string bench =
      "bench --suite " + suite + " --json " + json + " --launcher " + (folder / "launch");
  const Outcome measured = strata(folder, bench);
  INFO(measured.text);
  CHECK(measured.code == 1);
  CHECK_THAT(measured.text, ContainsSubstring("rows of which runs failed: a"));
  nlohmann::json out = read_json(json);
  CHECK_THAT(out["rows"][0]["runs"][0]["error"].get<std::string>(),
             ContainsSubstring("ended by signal 9, as the system ends programs when host memory"));
  CHECK(out["rows"][0]["runs"][0]["exit_code"] == 137);
  CHECK(out["rows"][1]["runs"][0]["result"].is_object());
  // What failed is measured again; what was measured is not.
  const Outcome resumed = strata(folder, bench + " --resume");
  CHECK(resumed.code == 0);
  CHECK_THAT(resumed.text, ContainsSubstring("a, run 1 of 1 (1 of 1 in all)"));
  CHECK(read_json(json)["rows"][1]["runs"] == out["rows"][1]["runs"]);
}

TEST_CASE("a killed suite leaves a whole file, and --resume measures what it lacks", "[long]") {
  const Folder folder;
  const std::string suite = write_suite(
      folder, {R"("name": "a", )" + kShort, R"("name": "b", "set": ["run.steps=1000000000"])"},
      R"("repeats": 2, )");
  const std::string json = folder / "out.json";
  for (const int signal : {SIGKILL, SIGTERM}) {
    CAPTURE(signal);
    const std::ptrdiff_t left_before = folders_left(folder);
    fs::remove(json);
    std::vector<std::string> words{strata_program(), "bench", "--suite", suite, "--json", json};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    const std::string log = folder / "log.txt";
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, log.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t child = -1;
    REQUIRE(::posix_spawn(&child, strata_program().c_str(), &files, nullptr, argv.data(),
                          environ) == 0);
    posix_spawn_file_actions_destroy(&files);
    CHECK(comes_to_be([&] { return read_file(log).find("b, run 1") != std::string::npos; }));
    ::kill(child, signal);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (signal == SIGTERM) {
      CHECK(WEXITSTATUS(status) == 128 + SIGTERM);
      CHECK_THAT(read_file(log), ContainsSubstring("--resume measures the rest"));
      CHECK(folders_left(folder) == left_before);
    }
    const nlohmann::json left = read_json(json);
    CHECK(left["rows"][0]["runs"].size() == 1);
    CHECK(left["rows"][1]["runs"].empty());
    const std::string resume = "bench --suite " + suite + " --json " + json + " --resume --rows a";
    const Outcome resumed = strata(folder, resume);
    INFO(resumed.text);
    CHECK(resumed.code == 0);
    CHECK_THAT(resumed.text, ContainsSubstring("a, run 2 of 2 (1 of 1 in all)"));
    const nlohmann::json whole = read_json(json);
    CHECK(whole["rows"].size() == 2);
    CHECK(whole["rows"][0]["runs"][0] == left["rows"][0]["runs"][0]);
    // Another config of a row is measured anew; another machine is refused.
    CHECK_THAT(strata(folder, resume + " --set run.steps=1").text,
               ContainsSubstring("a, run 1 of 2 (1 of 2 in all)"));
    const Outcome elsewhere = run(folder, "STRATA_HOSTID=other " + strata_program() + " " + resume);
    CHECK(elsewhere.code == 2);
    CHECK_THAT(elsewhere.text, ContainsSubstring("now \"other\""));
  }
}

TEST_CASE("the SLURM job measures a suite, goes on with it, and compares it with a baseline",
          "[long]") {
  const Folder folder;
  const std::string suite = write_suite(folder, {R"("name": "a", )" + kShort}, R"("repeats": 1, )");
  // srun that starts one rank of what follows its options, and notes that it was asked.
  write_program(folder / "bin/srun", "echo \"$1\" >> " + (folder / "asked") +
                                         "\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\n"
                                         "exec \"$@\"\n");
  const auto submitted = [&](const std::string& variables) {
    return run(folder, "PATH=" + (folder / "bin") + ":$PATH SLURM_SUBMIT_DIR=" + (folder / "") +
                           " SLURM_JOB_NAME=bench SLURM_JOB_ID=7 SLURM_CPUS_PER_TASK=1 STRATA=" +
                           strata_program() + " " + variables + " bash " + scripts_folder() +
                           "/bench.sbatch " + suite);
  };
  const Outcome first = submitted("");
  INFO(first.text);
  CHECK(first.code == 0);
  CHECK_THAT(first.text, ContainsSubstring("(1 of 1 in all)"));
  CHECK_THAT(read_file(folder / "bench/bench-7.md"), ContainsSubstring("| a "));
  CHECK_FALSE(fs::exists(folder / "asked"));
  CHECK_THAT(submitted("").text, !ContainsSubstring("in all)"));
  nlohmann::json baseline = read_json(folder / "bench/bench-7.json");
  baseline["rows"][0]["runs"][0]["result"]["tokens_per_s"] = 1e12;
  std::ofstream(folder / "fast.json") << baseline;
  const Outcome slow = submitted("STRATA_BASELINE=" + (folder / "fast.json"));
  CHECK(slow.code == 1);
  CHECK_THAT(slow.text, ContainsSubstring("slower than 1 times before"));
  const Outcome ranks = submitted("SLURM_NTASKS=2 STRATA_RESULTS=" + (folder / "two/ranks.json"));
  INFO(ranks.text);
  CHECK(ranks.code == 0);
  CHECK(read_file(folder / "asked") == "--mpi=pmix\n");
  CHECK_THAT(read_file(folder / "two/ranks.md"), ContainsSubstring("srun --mpi=pmix"));
}

#ifdef STRATA_MPIEXEC
TEST_CASE("a launcher starts the ranks of a suite's rows, not the suite", "[mpi][long]") {
  const Folder folder;
  const std::string suite = write_suite(folder, {R"("name": "a", )" + kShort}, R"("repeats": 1, )");
  const Outcome measured =
      strata(folder, "bench --suite " + suite + " --json " + (folder / "out.json") +
                         " --launcher '" + STRATA_MPIEXEC + " -n 2'");
  INFO(measured.text);
  CHECK(measured.code == 0);
  CHECK(read_json(folder / "out.json")["rows"][0]["runs"][0]["result"]["ranks"] == 2);
  CHECK_THAT(measured.text, ContainsSubstring("on 2 x "));
  const Outcome refused = strata_on_ranks(folder, 2, "bench --suite " + suite);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("--launcher \"mpirun -np 2\""));
}
#endif

TEST_CASE("every row of the suites for GPUs fits what it is said to need", "[long]") {
  const Folder folder;
  for (const std::string name : {"h200", "models"}) {
    const Outcome listed =
        strata(folder, "bench --suite " + configs_folder() + "/suites/" + name + ".json --list");
    REQUIRE(listed.code == 0);
    std::istringstream lines(listed.text);
    int rows = 0;
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("strata bench ")) continue;
      ++rows;
      CAPTURE(line);
      // A bench saves no checkpoints. Where a row leaves the host's limit open it is that of the
      // machine, and here of one that is large enough.
      const bool open = line.find("memory.host_limit") == std::string::npos;
      const Outcome planned =
          run(folder, "CUDA_VISIBLE_DEVICES= " + strata_program() + " plan " + line.substr(13) +
                          " --gpu H200 --set checkpoint.at_end=false" +
                          (open ? " --set memory.host_limit=600GiB" : ""));
      INFO(planned.text);
      CHECK(planned.code == 0);
      CHECK_THAT(planned.text, ContainsSubstring("tokens/s"));
    }
    CHECK(rows >= 7);
  }
}

}  // namespace strata::test
