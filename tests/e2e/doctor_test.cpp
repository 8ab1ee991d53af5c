// Runs `doctor` on this machine, as it is and with faults that a test can plant in a real one:
// limits, cores, disks, programs in PATH, variables of a launcher.

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "e2e/lines.h"

namespace strata::test {

namespace {

/// What `doctor --json` printed, and how it ended.
struct Examined {
  int code = -1;
  nlohmann::json json;

  [[nodiscard]] nlohmann::json of(const std::string& name) const {
    for (const nlohmann::json& finding : json["machine"]) {
      if (finding["name"] == name) return finding;
    }
    FAIL("no finding is called " << name << ": " << json.dump(2));
    return {};
  }
};

/// `before` stands before the program's name.
Examined examine(const Folder& folder, const std::string& before, const std::string& place) {
  const Outcome outcome =
      run(folder, before + " " STRATA_PROGRAM " doctor --json --folder " + place);
  INFO(outcome.text);
  Examined examined{.code = outcome.code, .json = nlohmann::json::parse(outcome.text)};
  const nlohmann::json& json = examined.json;
  REQUIRE(json["machine"].is_array());
  std::set<std::string> names;
  bool bad = false;
  for (const nlohmann::json& finding : json["machine"]) {
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

TEST_CASE("the doctor judges this machine within 10 seconds", "[long]") {
  const Folder folder;
  const auto begin = std::chrono::steady_clock::now();
  const Examined examined = examine(folder, "", folder / "");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (!STRATA_TESTS_SANITIZED &&
      examined.of("GPUs")["found"].get<std::string>().starts_with("none"))
    CHECK(took.count() < 10);
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
  if (std::thread::hardware_concurrency() > 1) {
    const Examined examined = examine(folder, "taskset --cpu-list 0", place);
    CHECK(examined.of("cores")["verdict"] == "bad");
    CHECK(examined.code == 1);
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

}  // namespace strata::test
