// Tests `doctor --self-test` by the program: what it prints, what it leaves, and that it works on
// several ranks. What the checks find is tested in tests/doctor.

#include <algorithm>

#include "e2e/program.h"
#include "support/json.h"

namespace strata::test {

namespace {

/// Reads the object that the command printed; what MPI says may stand before it and behind it.
nlohmann::json printed(const Outcome& outcome) {
  INFO(outcome.text);
  const std::size_t begin = outcome.text.find('{');
  const std::size_t end = outcome.text.rfind("\n}\n");
  REQUIRE(begin < end);
  REQUIRE(end != std::string::npos);
  return parse_json<nlohmann::json>(outcome.text.substr(begin, end + 2 - begin));
}

/// Returns what was found under this name, or null.
nlohmann::json finding(const nlohmann::json& report, const std::string& name) {
  for (const nlohmann::json& found : report.at("self_test")) {
    if (found.at("name") == name) return found;
  }
  return nullptr;
}

std::size_t entries(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

}  // namespace

TEST_CASE("the self-test finds nothing, and leaves what is there and links to it", "[long]") {
  const Folder folder;
  std::ofstream(folder / "precious") << "text";
  // The number of the process is that of the shell which becomes it.
  const std::string planted = (folder / "disk") + "/strata-self-test-$$/golden";
  const nlohmann::json report = printed(
      run(folder, "sh -c 'mkdir -p " + planted + "; for name in config.json " +
                      "self_test.safetensors model.safetensors; do ln -s " + (folder / "precious") +
                      " " + planted + "/$name; done; exec " + strata_program() +
                      " doctor --self-test --json --folder " + (folder / "disk") + "'"));
  for (const nlohmann::json& found : report.at("self_test")) {
    INFO(json_text(found));
    CHECK(found.at("verdict") == "ok");
  }
  for (const char* const name : {"collectives", "operators", "golden model in f32",
                                 "streamed and resident", "save and resume", "kill and resume"}) {
    INFO(name);
    CHECK(finding(report, name) != nullptr);
  }
  CHECK(read_file(folder / "precious") == "text");
  CHECK(entries(folder / "disk") == 1);
}

TEST_CASE("a self-test that has no folder says so and fails", "[long]") {
  const Folder folder;
  const Outcome outcome = strata(folder, "doctor --self-test --json --folder /proc/self/nowhere");
  CHECK(outcome.code == 1);
  const nlohmann::json report = printed(outcome);
  CHECK(report.at("verdict") == "bad");
  CHECK(finding(report, "folder").at("remedy").get<std::string>().find("--folder") !=
        std::string::npos);
  CHECK(finding(report, "operators").at("verdict") == "ok");
}

#ifdef STRATA_MPIEXEC
TEST_CASE("the self-test of two ranks tries their collectives", "[long][mpi]") {
  const Folder folder;
  fs::create_directory(folder / "disk");
  const Outcome outcome =
      strata_on_ranks(folder, 2, "doctor --self-test --json --folder " + (folder / "disk"));
  const nlohmann::json report = printed(outcome);
  const std::string found = finding(report, "collectives").at("found");
  CHECK(found.find("2 ranks") != std::string::npos);
  CHECK(finding(report, "kill and resume").at("verdict") == "ok");
}
#endif

}  // namespace strata::test
