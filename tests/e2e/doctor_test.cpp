// Runs `doctor` on this machine, as it is and with faults that a test can plant in a real one:
// limits, cores, disks, programs in PATH, variables of a launcher.

#include <set>
#include <string>
#include <vector>

#include "e2e/lines.h"
#include "strata/base/this_thread.h"
#include "support/json.h"
#include "support/places.h"

namespace strata::test {

namespace {

/// What `doctor --json` printed, and how it ended.
struct Examined {
  int code = -1;
  nlohmann::json json;

  [[nodiscard]] nlohmann::json of(const std::string& name) const {
    for (const char* const part : {"machine", "run"}) {
      if (!json.contains(part)) continue;
      for (const nlohmann::json& finding : json[part]) {
        if (finding["name"] == name) return finding;
      }
    }
    FAIL("no finding is called " << name << ": " << json_text(json, 2));
    return {};
  }
};

/// `before` stands before the program's name, `more` behind the command's.
Examined examine(const Folder& folder, const std::string& before, const std::string& place,
                 const std::string& more = {}) {
  const std::string where = place.empty() ? "" : " --folder " + place;
  const Outcome outcome =
      run(folder, before + " " + strata_program() + " doctor --json" + where + more);
  INFO(outcome.text);
  Examined examined{.code = outcome.code, .json = parse_json<nlohmann::json>(outcome.text)};
  const nlohmann::json& json = examined.json;
  REQUIRE(json["machine"].is_array());
  std::set<std::string> names;
  bool bad = false;
  nlohmann::json all = json["machine"];
  if (json.contains("run")) all.insert(all.end(), json["run"].begin(), json["run"].end());
  for (const nlohmann::json& finding : all) {
    CHECK(names.insert(finding["name"]).second);
    const std::string verdict = finding["verdict"];
    CHECK((verdict == "ok" || verdict == "warn" || verdict == "bad"));
    CHECK((verdict == "ok") == finding["remedy"].get<std::string>().empty());
    CHECK_FALSE(finding["found"].get<std::string>().empty());
    bad = bad || verdict == "bad";
  }
  CHECK((json["verdict"] == "bad") == bad);
  CHECK(examined.code == (bad ? 1 : 0));
  return examined;
}

/// Returns the verdict of a finding but for how fast the disk is just now, of which it warns as
/// well.
std::string verdict_on_run(const nlohmann::json& finding) {
  const std::string remedy = finding["remedy"];
  return remedy.starts_with("checkpoints of large models take long") ? "ok" : finding["verdict"];
}

/// Puts a program that prints a text first into PATH; returns the assignment.
std::string with_program(const Folder& folder, const std::string& name, const std::string& text) {
  fs::create_directories(folder / "bin");
  const std::string file = folder / ("bin/" + name);
  write_file(file, "#!/bin/sh\n" + text + "\n");
  fs::permissions(file, fs::perms::owner_all);
  return "env PATH=" + (folder / "bin") + ":$PATH";
}

/// Mounts a disk of 2 MiB in a namespace of its own; "" where the system does not allow that.
std::string on_disk(const Folder& folder, const std::string& options) {
  const std::string mount = "unshare --user --map-root-user --mount sh -c 'mount -t tmpfs -o " +
                            options + " none " + (folder / "disk");
  fs::create_directories(folder / "disk");
  if (run(folder, mount + "'").code != 0) return {};
  return mount + " && exec \"$0\" \"$@\"'";
}

}  // namespace

TEST_CASE("the doctor judges this machine", "[long]") {
  const Folder folder;
  const Examined examined = examine(folder, "", folder / "");
  CHECK(examined.json["program"].get<std::string>().starts_with("strata "));
  CHECK_THAT(examined.of("host rates")["found"].get<std::string>(), ContainsSubstring("AdamW"));
  CHECK_THAT(examined.of("disk")["found"].get<std::string>(), ContainsSubstring("writes"));
  CHECK_FALSE(fs::exists(folder / "disk"));

  const Outcome lines = strata(folder, "doctor --folder " + (folder / ""));
  CHECK(lines.code == examined.code);
  for (const nlohmann::json& finding : examined.json["machine"]) {
    CHECK_THAT(lines.text, ContainsSubstring(" " + finding["name"].get<std::string>() + " "));
  }
}

TEST_CASE("the doctor finds faults that are planted in this machine", "[long]") {
  const Folder folder;
  const std::string place = folder / "";
  {
    const Examined examined = examine(folder, "ulimit -l 64;", place);
    CHECK(examined.of("locked memory")["verdict"] != "ok");
    CHECK_THAT(examined.of("locked memory")["found"].get<std::string>(),
               ContainsSubstring("64 KiB"));
  }
  if (const std::vector<int> cores = cores_of_this_thread(); cores.size() > 1) {
    const Examined examined =
        examine(folder, "taskset --cpu-list " + std::to_string(cores.front()), place);
    CHECK(examined.of("cores")["verdict"] == "warn");
    CHECK(examined.of("cores")["found"].get<std::string>().starts_with("1 of "));
  }
  {
    const Examined examined = examine(folder, "env PMI_SIZE=4 PMI_RANK=0", place);
    CHECK(examined.of("MPI")["verdict"] == "bad");
    CHECK(examined.code == 1);
  }
  {
    const std::string smi = with_program(
        folder, "nvidia-smi",
        "case $1 in *compute-apps*) echo 'GPU-1, 4711, 70000, python3'; exit;; esac\n"
        "for f in $(echo ${1#--query-gpu=} | tr , ' '); do case $f in index) v=0;; uuid) v=GPU-1;; "
        "name) v='NVIDIA H200';; *) v='[N/A]';; esac; line=\"$line${line:+, }$v\"; done\n"
        "echo \"$line\"");
    const Examined examined = examine(folder, smi + " CUDA_VISIBLE_DEVICES=", place);
    CHECK(examined.of("GPU 0 use")["verdict"] == "warn");
    CHECK_THAT(examined.of("GPU 0 use")["found"].get<std::string>(),
               ContainsSubstring("python3 (process 4711, 70000 MiB)"));
  }
  const std::string full = on_disk(folder, "size=2m");
  if (full.empty()) {
    WARN("skipped: no file system can be mounted here, so no disk is full and none read-only");
    return;
  }
  CHECK(examine(folder, full, folder / "disk").of("disk")["verdict"] == "bad");
  const std::string read_only = on_disk(folder, "ro");
  const Examined examined = examine(folder, read_only, folder / "disk");
  CHECK(examined.of("disk")["verdict"] == "bad");
  CHECK_THAT(examined.of("disk")["remedy"].get<std::string>(), ContainsSubstring("Read-only"));
}

TEST_CASE("the doctor looks whether a run is right, has what it needs, and fits", "[long]") {
  const Folder folder;
  const std::string tiny =
      " " + configs_folder() + "/tiny-cpu.json --set run.output=" + (folder / "run");
  const auto found = [&](const std::string& sets) { return examine(folder, "", "", tiny + sets); };
  const auto check_bad = [&](const std::string& name, const std::string& config,
                             const std::string& remedy) {
    const Examined examined = examine(folder, "", "", config);
    INFO(json_text(examined.json, 2));
    CHECK(examined.code == 1);
    for (const nlohmann::json& finding : examined.json["run"]) {
      CHECK(verdict_on_run(finding) == (finding["name"] == name ? "bad" : "ok"));
    }
    CHECK_THAT(examined.of(name)["remedy"].get<std::string>(), ContainsSubstring(remedy));
  };
  {
    const Examined good = found("");
    for (const nlohmann::json& finding : good.json["run"]) CHECK(verdict_on_run(finding) == "ok");
    CHECK_THAT(good.of("memory of the run")["found"].get<std::string>(),
               ContainsSubstring(" on the host"));
    // 218 thousand parameters in f32 with two moments, saved once, at the end.
    CHECK_THAT(good.of("disk")["found"].get<std::string>(),
               ContainsSubstring("a checkpoint takes 2.5") && ContainsSubstring("kept 2.5"));
    // Two are kept and one is written.
    const Examined saving = found(" --set checkpoint.every_steps=5");
    CHECK_THAT(saving.of("disk")["found"].get<std::string>(), ContainsSubstring("kept 7."));
    CHECK_FALSE(fs::exists(folder / "run"));
  }
  check_bad("config", tiny + " --set run.stepps=3", "did you mean run.steps?");
  const Examined refused = found(" --set schedule.step_rows=1000");
  CHECK(refused.of("memory of the run")["found"] == "cannot be planned");
  CHECK(found(" --set memory.host_limit=1MiB").of("memory of the run")["found"] == "does not fit");
  CHECK_THAT(strata(folder, "doctor" + tiny + " --set run.steps=7 --set run.steps=8").text,
             ContainsSubstring("--set run.steps=7 is replaced by the later --set run.steps=8"));
  fs::create_directories(folder / "model");  // without weights
  fs::copy(goldens_folder() + "/gqa_tied_llama3/config.json", folder / "model/config.json");
  write_file(folder / "tune.json", R"({"run": {"steps": 9, "dtype": "f32", "output": ")" +
                                       (folder / "run") + R"("}, "model": {"path": ")" +
                                       (folder / "model") +
                                       R"("}, "data": {"synthetic": true, "sequence_length": 8}})");
  check_bad("model", " " + (folder / "tune.json"), "safetensors");
  check_bad("data", tiny + " --set data.synthetic=false --set data.train=missing.bin",
            "missing.bin: cannot be opened");
  write_file(folder / "few.bin", std::string(20, '\1'));
  check_bad("data",
            tiny + " --set data.synthetic=false --set data.dtype=u16 --set data.train=" +
                (folder / "few.bin"),
            "few.bin");
  check_bad("memory of the run", tiny + " --set memory.host_limit=40MiB", "memory.host_limit");
  fs::create_directories(folder / "run");
  write_file(folder / "run/metrics.jsonl", "");
  CHECK(found("").of("run folder")["verdict"] == "warn");
  const std::string full = on_disk(folder, "size=2m");
  if (full.empty()) return;
  const Examined examined =
      examine(folder, full, "",
              " " + configs_folder() + "/tiny-cpu.json --set run.output=" + (folder / "disk/run"));
  CHECK_THAT(examined.of("disk")["remedy"].get<std::string>(),
             ContainsSubstring("No space left") || ContainsSubstring("no checkpoint of this run"));
}

}  // namespace strata::test
