// Tests what `train` says and does about checkpoints, and that no death of the program costs more
// than the steps since the last one: what goes on from it has the bits of a run that never died.

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "e2e/model_files.h"
#include "e2e/saved_runs.h"
#include "support/catch.h"
#include "support/places.h"

namespace strata::test {

namespace {

/// Returns how many saves a run has told of, which may be writing its next line just now.
int saves_told(const std::string& run_folder) {
  const std::string text = read_file(run_folder + "/metrics.jsonl");
  const std::string save = "\"event\":\"checkpoint\"";
  int count = 0;
  for (std::size_t at = 0; (at = text.find(save, at)) != std::string::npos; ++at) ++count;
  return count;
}

/// On which disk a run has its checkpoints: that of its folder, or another one by a link.
enum class Disk : std::uint8_t { kHere, kLinked };

/// Kills runs at every `stride`-th call that changes files, from the first on; returns the kills.
int kill_at_calls(long first, long stride, Disk disk = Disk::kHere) {
  const Folder folder;
  const std::string preload = "env LD_PRELOAD=" + built("libkill_at_call.so") + " ";
  const Outcome reference = run(folder, preload + "KILL_COUNT_FILE=" + (folder / "count") + " " +
                                            kProgram + train_short(folder, "reference", ""));
  INFO(reference.text);
  REQUIRE(reference.code == 0);
  const long calls = std::stol(read_file(folder / "count"));
  REQUIRE(calls > 150);
  int kills = 0;
  for (long call = first; call <= calls; call += stride) {
    fs::remove_all(folder / "run");
    if (disk == Disk::kLinked) {
      fs::remove_all(folder / "disk");
      fs::create_directories(folder / "disk/checkpoints");
      fs::create_directories(folder / "run");
      fs::create_directory_symlink(folder / "disk/checkpoints", folder / "run/checkpoints");
    }
    Process process(folder, preload + "KILL_AT_CALL=" + std::to_string(call) + " " + kProgram +
                                train_short(folder, "run", "--resume auto"));
    const int code = process.wait();
    INFO("call " << call << " of " << calls << "\n" << process.text());
    REQUIRE((code == -SIGKILL || code == 0));  // which saves there are depends on their time
    kills += code == 0 ? 0 : 1;
    if (code != 0) check_goes_on(folder, "", 12);
  }
  return kills;
}

/// Kills one run again and again until it has done all steps, which must be seen to happen. Most
/// kills come after it has saved a few times since it went on, so that they hit its work on every
/// machine; the others come at any time, and so at its beginning as well.
int kill_at_moments(unsigned seed, int wanted) {
  constexpr long kSteps = 160;
  const Folder folder;
  const std::string steps =
      "--set checkpoint.every_steps=2 --set run.steps=" + std::to_string(kSteps);
  REQUIRE(strata(folder, train_short(folder, "reference", steps)).code == 0);
  std::minstd_rand random(seed);
  int kills = 0;
  while (kills < wanted) {
    fs::remove_all(folder / "run");
    int code = -SIGKILL;
    while (code == -SIGKILL) {
      const int before = saves_told(folder / "run");
      const int saves = static_cast<int>(random() % 4);
      const auto moment = std::chrono::microseconds(random() % (saves == 0 ? 300000 : 30000));
      Process process(folder, kProgram + train_short(folder, "run", steps + " --resume auto"));
      comes_to_be([&] { return saves_told(folder / "run") >= before + saves; },
                  [&] { return process.has_ended(); });
      std::this_thread::sleep_for(moment);  // whatever it is at then
      if (kills < wanted) process.send(SIGKILL);
      code = process.wait();
      INFO(process.text());
      REQUIRE((code == -SIGKILL || code == 0));
      kills += code == 0 ? 0 : 1;
    }
    CHECK(difference(checkpoint(folder / "reference", kSteps),
                     checkpoint(folder / "run", kSteps)) == "");
  }
  return kills;
}

}  // namespace

TEST_CASE("a run whose checkpoints are on another disk goes on when it is killed", "[long]") {
  if (skips_preload()) return;
  CHECK(kill_at_calls(40, 67, Disk::kLinked) >= 3);
}

TEST_CASE("a run that is killed at any call that changes files goes on with its own bits",
          "[slow][kills]") {
  if (skips_preload()) return;
  CHECK(kill_at_calls(1, 1) >= 150);
}

TEST_CASE("a run that is killed 50 times at random moments goes on with its own bits",
          "[slow][kills]") {
  CHECK(kill_at_moments(2, 50) >= 50);
}

TEST_CASE("runs are killed for as long as KILL_SECONDS says", "[slow]") {
  const char* const seconds = std::getenv("KILL_SECONDS");
  if (seconds == nullptr) return;  // by hand
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atol(seconds));
  int at_moments = 0;
  int at_calls = 0;
  for (unsigned seed = 100; std::chrono::steady_clock::now() < end; ++seed) {
    at_moments += kill_at_moments(seed, 40);
    at_calls += kill_at_calls(1 + seed % 13, 13);
    std::printf("%d kills at random moments, %d at calls\n", at_moments, at_calls);
    std::fflush(stdout);
  }
}

TEST_CASE("--resume auto begins where there is nothing to go on from") {
  const Folder folder;
  const Outcome begun = strata(folder, train_short(folder, "run", "--resume auto"));
  INFO(begun.text);
  CHECK(begun.code == 0);
  CHECK(losses(folder / "run").size() == 12);
  CHECK(lines_of(folder / "run", "resume").empty());
  CHECK(names_in(folder / "run/checkpoints") == std::vector<std::string>{"step-00000012"});
}

TEST_CASE("a second run in a folder with a run is told of --resume and --overwrite") {
  const Folder folder;
  REQUIRE(strata(folder, train_short(folder, "run", "")).code == 0);
  const Outcome refused = strata(folder, train_short(folder, "run", ""));
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("holds a run") && ContainsSubstring("checkpoints") &&
                               ContainsSubstring("--resume") && ContainsSubstring("--overwrite"));
  CHECK(fs::exists(checkpoint(folder / "run", 12)));
  const Outcome replaced =
      strata(folder, train_short(folder, "run", "--overwrite --set run.steps=6"));
  CHECK(replaced.code == 0);
  CHECK(names_in(folder / "run/checkpoints") == std::vector<std::string>{"step-00000006"});
}

TEST_CASE("a checkpoint that is named and not there is an error of the command") {
  const Folder folder;
  const std::string keep = "--set checkpoint.keep=3 ";
  REQUIRE(strata(folder, train_short(folder, "run", keep)).code == 0);
  for (const std::string& name :
       {std::string("7"), folder / "nowhere", folder / "run/checkpoints/step-00000099"}) {
    const Outcome refused = strata(folder, train_short(folder, "run", keep + "--resume " + name));
    INFO(refused.text);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.text, ContainsSubstring("--resume " + name));
  }
}

TEST_CASE("a run that is done is an error if it is named, and a success to --resume auto") {
  const Folder folder;
  REQUIRE(strata(folder, train_short(folder, "run", "")).code == 0);
  const std::string before = read_file(folder / "run/metrics.jsonl");
  for (const auto& [from, code] : {std::pair("auto", 0), std::pair("12", 2)}) {
    const Outcome done =
        strata(folder, train_short(folder, "run", std::string("--resume ") + from));
    INFO(done.text);
    CHECK(done.code == code);
    CHECK_THAT(done.text, ContainsSubstring("has done 12 steps") && ContainsSubstring("run.steps"));
    CHECK(read_file(folder / "run/metrics.jsonl") == before);
  }
}

TEST_CASE("a run goes on from a step, a folder or the newest checkpoint, and says so", "[long]") {
  const Folder folder;
  const std::string keep = "--set checkpoint.keep=5 --set checkpoint.every_steps=null ";
  REQUIRE(strata(folder, train_short(folder, "run", keep + "--set run.steps=6")).code == 0);
  REQUIRE(strata(folder, train_short(folder, "reference", "")).code == 0);
  for (const std::string& from :
       {std::string("6"), checkpoint(folder / "run", 6), folder / "run", std::string("auto")}) {
    fs::remove_all(folder / "again");
    fs::copy(folder / "run", folder / "again", fs::copy_options::recursive);
    const Outcome resumed = strata(folder, train_short(folder, "again", keep + "--resume " + from));
    INFO(from << "\n" << resumed.text);
    CHECK(resumed.code == 0);
    CHECK_THAT(resumed.text, ContainsSubstring("resumes") &&
                                 ContainsSubstring("step-00000006 (step 6)") &&
                                 ContainsSubstring("run.steps: was 6, is 12"));
    CHECK(difference(checkpoint(folder / "reference", 12), checkpoint(folder / "again", 12)) == "");
    const std::vector<nlohmann::json> lines = lines_of(folder / "again", "resume");
    REQUIRE(lines.size() == 1);
    CHECK(lines[0]["step"] == 6);
    CHECK_THAT(lines[0]["checkpoint"].get<std::string>(), ContainsSubstring("step-00000006"));
    CHECK(losses(folder / "again") == losses(folder / "reference"));
  }
}

TEST_CASE("a run that goes back says what it leaves behind, and loses none of it") {
  const Folder folder;
  const std::string keep = "--set checkpoint.every_steps=1000 --set checkpoint.milestone_steps=6 ";
  REQUIRE(strata(folder, train_short(folder, "run", keep)).code == 0);
  REQUIRE(fs::exists(checkpoint(folder / "run", 6)));
  fs::copy(checkpoint(folder / "run", 12), folder / "old", fs::copy_options::recursive);
  const std::string aside = checkpoint(folder / "run", 12) + ".abandoned";

  const std::string none = "--set checkpoint.at_end=false ";
  const Outcome back =
      strata(folder, train_short(folder, "run", keep + none + "--set run.steps=7 --resume 6"));
  INFO(back.text);
  CHECK(back.code == 0);
  CHECK_THAT(back.text, ContainsSubstring("later steps than 6 are set aside") &&
                            ContainsSubstring(aside) && ContainsSubstring("--resume auto"));
  CHECK(difference(folder / "old", aside) == "");

  // Nothing new was saved: auto takes the checkpoint that was gone back to, and then the new ones.
  const Outcome again = strata(folder, train_short(folder, "run", keep + "--resume auto"));
  CHECK_THAT(again.text, ContainsSubstring("(step 6)") && !ContainsSubstring("set aside"));
  CHECK(difference(aside, checkpoint(folder / "run", 12)) == "");
  const Outcome last =
      strata(folder, train_short(folder, "run", keep + "--set run.steps=13 --resume auto"));
  CHECK_THAT(last.text, ContainsSubstring("step-00000012 (step 12)"));
  const Outcome named =
      strata(folder, train_short(folder, "run", keep + "--set run.steps=14 --resume " + aside));
  INFO(named.text);
  CHECK_THAT(named.text, ContainsSubstring("step-00000012.abandoned (step 12)"));
  CHECK(fs::exists(checkpoint(folder / "run", 14)));
}

TEST_CASE("weights that are saved alone are a model, and nothing to go on from") {
  const Folder folder;
  const std::string keys =
      "--set run.dtype=bf16 --set checkpoint.weights_every_steps=4 --set "
      "checkpoint.weights_keep=1 ";
  REQUIRE(strata(folder, train_short(folder, "run", keys)).code == 0);
  const std::string weights = folder / "run/weights/";
  const std::string last = weights + "step-00000012";
  CHECK(std::distance(fs::directory_iterator(weights), {}) == 1);
  CHECK(!fs::exists(last + "/state"));
  CHECK(contents_of(last + "/model") == contents_of(checkpoint(folder / "run", 12) + "/model"));
  CHECK(lines_of(folder / "run", "checkpoint").back()["weights_alone"] == true);

  const Outcome shown = strata(folder, "inspect --verify " + last);
  CHECK(shown.code == 0);
  CHECK_THAT(shown.text, ContainsSubstring("weights bf16 alone"));
  CHECK_THAT(strata(folder, "inspect " + (folder / "run")).text,
             ContainsSubstring("step-00000012, weights alone: loss "));
  CHECK(strata(folder, "export " + last + " " + (folder / "model")).code == 0);
  CHECK(contents_of(folder / "model") == contents_of(last + "/model"));
  const Outcome masters = strata(folder, "export --dtype f32 " + last + " " + (folder / "f32"));
  CHECK(masters.code == 2);
  CHECK_THAT(masters.text, ContainsSubstring("without the low halves"));

  const Outcome resumed = strata(folder, train_short(folder, "other", keys + "--resume " + last));
  CHECK(resumed.code == 2);
  CHECK_THAT(resumed.text, ContainsSubstring("holds weights alone") &&
                               ContainsSubstring("model.path = " + last + "/model"));
  // They go with the run.
  CHECK(strata(folder, train_short(folder, "run", "--overwrite")).code == 0);
  CHECK(!fs::exists(last));
}

TEST_CASE("keys that change the numbers need --allow") {
  const Folder folder;
  REQUIRE(strata(folder, train_short(folder, "run", "--set run.steps=6")).code == 0);
  const std::string other = "--resume auto --set optimizer.lr=0.002 --set run.seed=3 ";
  const Outcome refused = strata(folder, train_short(folder, "run", other));
  INFO(refused.text);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("optimizer.lr: was 0.001, is 0.002") &&
                               ContainsSubstring("--allow optimizer.lr") &&
                               ContainsSubstring("--allow run.seed"));
  const std::string model = "--resume auto --set model.num_hidden_layers=3 ";
  const Outcome never =
      strata(folder, train_short(folder, "run", model + "--allow model.num_hidden_layers"));
  CHECK(never.code == 2);
  CHECK_THAT(never.text, ContainsSubstring("another model"));
  const Outcome allowed =
      strata(folder, train_short(folder, "run", other + "--allow optimizer.lr --allow run.seed"));
  INFO(allowed.text);
  CHECK(allowed.code == 0);
  CHECK_THAT(allowed.text, ContainsSubstring("optimizer.lr: was 0.001, is 0.002"));
}

TEST_CASE("a signal saves the last state, and the run goes on from it bit by bit", "[long]") {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
    const Folder folder;
    Process process(folder, kProgram + train_short(folder, "run", kEndless));
    process.wait_for(folder / "run/metrics.jsonl", "\"step\":20,");
    process.send(signal);
    const int code = process.wait();
    INFO(process.text());
    REQUIRE(code == 75);
    const long done = metrics(folder / "run").back()["steps"];
    CHECK(fs::exists(checkpoint(folder / "run", done)));
    CHECK(lines_of(folder / "run", "checkpoint").back()["saved"] == true);
    const std::string steps = "--set run.steps=" + std::to_string(done + 6) + " ";
    REQUIRE(strata(folder, train_short(folder, "reference", steps)).code == 0);
    check_goes_on(folder, steps, done + 6);
    CHECK(losses(folder / "run") == losses(folder / "reference"));
  }
}

TEST_CASE("a signal to a run that does not save has the exit code of the signal") {
  const Folder folder;
  Process process(
      folder, kProgram + train_short(folder, "run", kEndless + "--set checkpoint.at_end=false"));
  process.wait_for(folder / "run/metrics.jsonl", "\"step\":5,");
  process.send(SIGTERM);
  CHECK(process.wait() == 128 + SIGTERM);
  CHECK_FALSE(fs::exists(folder / "run/checkpoints"));
}

TEST_CASE("SIGUSR2 and a file named save ask for a checkpoint") {
  const Folder folder;
  Process process(folder, kProgram + train_short(folder, "run", kEndless));
  const std::string metrics_file = folder / "run/metrics.jsonl";
  process.wait_for(metrics_file, "\"step\":5,");
  process.send(SIGUSR2);
  process.wait_until("SIGUSR2 saves", [&] { return saves_told(folder / "run") == 1; });
  std::ofstream(folder / "run/save").close();
  process.wait_until("the file saves", [&] { return saves_told(folder / "run") == 2; });
  CHECK_FALSE(fs::exists(folder / "run/save"));
  process.send(SIGTERM);
  CHECK(process.wait() == 75);
  const std::vector<nlohmann::json> saves = lines_of(folder / "run", "checkpoint");
  REQUIRE(saves.size() == 3);
  for (const nlohmann::json& save : saves) CHECK(save["saved"] == true);
}

TEST_CASE("a run whose checkpoints would not fit is refused before its first step") {
  const Folder folder;
  const std::string limited = "bash -c 'ulimit -f 100; " + kProgram;
  const Outcome refused = run(folder, limited + train_short(folder, "run", "") + "'");
  INFO(refused.text);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("run.output") && ContainsSubstring("ulimit -f"));
  const std::string none = "--set checkpoint.at_end=false --set checkpoint.every_steps=null";
  CHECK(run(folder, limited + train_short(folder, "none", none) + "'").code == 0);
}

TEST_CASE("a full disk costs a checkpoint, and neither the run nor the one before") {
  const Folder folder;
  fs::create_directories(folder / "small");
  const std::string mount =
      "unshare -m sh -c 'mount -t tmpfs -o size=500k none " + (folder / "small") + " && ";
  if (run(folder, mount + "true'").code != 0) {
    WARN("skipped: no file system may be mounted here");
    return;
  }
  // Step 4 fits, and nothing beside it; after it the disk has room again only for a run that goes
  // on.
  const Outcome done = run(
      folder, mount + kProgram + train_short(folder, "small/run", "--set run.steps=9") +
                  "; code=$?; ls " + (folder / "small/run/checkpoints") + "; grep -h checkpoint " +
                  (folder / "small/run/metrics.jsonl") + "; exit $code'");
  INFO(done.text);
  CHECK(done.code == 74);  // the last one was lost
  CHECK_THAT(done.text, ContainsSubstring("No space left on device") &&
                            ContainsSubstring("training goes on") &&
                            ContainsSubstring("\"saved\":true") &&
                            ContainsSubstring("\"saved\":false"));
  CHECK_THAT(done.text, !ContainsSubstring(".unfinished-step-00000009-1\n"));
}

#ifdef STRATA_MPIEXEC
TEST_CASE("a run of two ranks goes on with one or four", "[mpi][long]") {
  const Folder folder;
  const auto train = [&](const std::string& name, int rows, const std::string& more) {
    return train_short(folder, name,
                       "--set checkpoint.every_steps=null --set schedule.rows=" +
                           std::to_string(rows) + " " + more);
  };
  const Outcome begun = strata_on_ranks(folder, 2, train("two", 2, "--set run.steps=6"));
  INFO(begun.text);
  REQUIRE(begun.code == 0);
  REQUIRE(strata(folder, train("reference", 4, "")).code == 0);
  const std::vector<double> wanted = losses(folder / "reference");
  for (const int ranks : {1, 4}) {
    fs::remove_all(folder / "run");
    fs::copy(folder / "two", folder / "run", fs::copy_options::recursive);
    const Outcome resumed =
        strata_on_ranks(folder, ranks, train("run", 4 / ranks, "--resume auto"));
    INFO(ranks << " ranks\n" << resumed.text);
    REQUIRE(resumed.code == 0);
    const std::vector<double> got = losses(folder / "run");
    REQUIRE(got.size() == wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - wanted[i]) < 1e-4);
  }
}

TEST_CASE("hosts that each hold the state train alike, and one writes it", "[long][mpi]") {
  const Folder folder;
  const auto train = [&](const std::string& name, const std::string& more) {
    return train_short(folder, name, "--set run.dtype=f64 " + more);
  };
  const auto on_host = [&](const std::string& host, int ranks, const std::string& name) {
    return "-n " + std::to_string(ranks) + " env STRATA_HOSTID=" + host + " " + kProgram +
           train(name, "--set run.shard_group=node");
  };
  const Outcome hosts =
      run(folder, kMpiExec + on_host("one", 2, "hosts") + " : " + on_host("other", 2, "hosts"));
  INFO(hosts.text);
  REQUIRE(hosts.code == 0);
  REQUIRE(strata(folder, train("alone", "--set schedule.rows=4")).code == 0);
  const std::vector<double> wanted = losses(folder / "alone");
  const std::vector<double> got = losses(folder / "hosts");
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - wanted[i]) < 1e-9);
  CHECK(strata(folder, "inspect --verify " + (folder / "hosts")).code == 0);
  CHECK(strata(folder, train("hosts", "--set schedule.rows=4 --set run.steps=13 --resume auto"))
            .code == 0);
  const Outcome uneven =
      run(folder, kMpiExec + on_host("one", 2, "uneven") + " : " + on_host("other", 1, "uneven"));
  CHECK(uneven.code == 2);
  CHECK_THAT(uneven.text, ContainsSubstring("one has 2, other has 1"));
}

TEST_CASE("two ranks that are told to end save, and go on with their own bits", "[long][mpi]") {
  const Folder folder;
  Process process(folder, on_ranks(2) + train_short(folder, "run", kEndless));
  process.wait_for(folder / "run/metrics.jsonl", "\"step\":20,");
  const std::string holder = read_file(folder / "run/.lock");
  ::kill(static_cast<pid_t>(std::stol(holder.substr(holder.find(' ')))), SIGTERM);
  const int code = process.wait();
  INFO(process.text());
  CHECK(code == 75);
  const long done = metrics(folder / "run").back()["steps"];
  const std::string steps = "--set run.steps=" + std::to_string(done + 6) + " ";
  REQUIRE(strata_on_ranks(folder, 2, train_short(folder, "reference", steps)).code == 0);
  REQUIRE(strata_on_ranks(folder, 2, train_short(folder, "run", steps + "--resume auto")).code ==
          0);
  CHECK(difference(checkpoint(folder / "reference", done + 6),
                   checkpoint(folder / "run", done + 6)) == "");
}
#endif

TEST_CASE("auto goes on from an older checkpoint where a byte of the newest has changed") {
  const Folder folder;
  REQUIRE(strata(folder, train_short(folder, "whole", "")).code == 0);
  REQUIRE(strata(folder, train_short(folder, "run", "--set run.steps=8 --set checkpoint.keep=2"))
              .code == 0);
  const std::string damaged = checkpoint(folder / "run", 8) + "/state/layers.2.safetensors";
  {
    std::fstream file(damaged, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(5000);
    file.put('\x5a');
  }
  const Outcome resumed = strata(folder, train_short(folder, "run", "--resume auto"));
  INFO(resumed.text);
  REQUIRE(resumed.code == 0);
  CHECK_THAT(resumed.text, ContainsSubstring("passed over: " + damaged) &&
                               ContainsSubstring("step-00000004 (step 4)"));
  CHECK(difference(checkpoint(folder / "run", 12), checkpoint(folder / "whole", 12)) == "");
  const Outcome named = strata(folder, train_short(folder, "other", "--resume " + damaged));
  CHECK(named.code == 2);
}

}  // namespace strata::test
