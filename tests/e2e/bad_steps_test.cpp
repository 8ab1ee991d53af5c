// Tests what becomes of a run at a step whose numbers are bad: a batch that is unlike all others,
// and a learning rate that no model survives.

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "e2e/program.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"

namespace strata::test {

namespace {

constexpr int kRowTokens = 16;

/// Writes rows that are all alike but one, and the token that ends the last.
void write_rows(const std::string& file, int rows, int other) {
  std::vector<std::uint16_t> tokens;
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < kRowTokens; ++i) {
      const int token = row == other ? 11 * i % 251 : (i % 2 == 0 ? 5 : 9);
      tokens.push_back(static_cast<std::uint16_t>(token));
    }
  }
  tokens.push_back(5);
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(tokens.data()),
             static_cast<std::streamsize>(tokens.size() * sizeof(tokens[0])));
}

std::string train_rows(const Folder& folder, const std::string& name, const std::string& more) {
  return "train " + configs_folder() + "/tiny-cpu.json --output " + (folder / name) +
         " --set data.synthetic=false --set data.dtype=u16 --set data.train=" +
         (folder / "rows.bin") +
         " --set data.sequence_length=16 --set schedule.rows=1 --set schedule.sub_batches=1"
         " --set run.threads=1 --set run.log_every=1000 " +
         more;
}

std::vector<nlohmann::json> event_lines(const std::string& run_folder, const std::string& event) {
  std::vector<nlohmann::json> lines;
  for (const nlohmann::json& line : metrics(run_folder)) {
    if (line["event"] == event) lines.push_back(line);
  }
  return lines;
}

}  // namespace

TEST_CASE("a run goes back from a batch that throws it off, and leaves that out") {
  const Folder folder;
  write_rows(folder / "rows.bin", 200, 77);
  const auto train = [&](const std::string& more) {
    return strata(folder, train_rows(folder, "run",
                                     "--set checkpoint.every_steps=10 --set run.loss_outlier_z=3"
                                     " --set run.on_nonfinite=rollback " +
                                         more));
  };
  // A first part ends with a checkpoint, so that there is one to go back to however slow the disk
  // is.
  REQUIRE(train("--set run.steps=60").code == 0);
  const Outcome done = train("--set run.steps=120 --resume auto");
  INFO(done.text);
  REQUIRE(done.code == 0);
  CHECK_THAT(done.text, ContainsSubstring("standard deviations above its mean") &&
                            ContainsSubstring("the run goes back to"));
  const auto rollbacks = event_lines(folder / "run", "rollback");
  REQUIRE(rollbacks.size() == 1);
  const long bad = rollbacks[0]["step"];
  REQUIRE(event_lines(folder / "run", "resume").size() == 2);
  const long from = event_lines(folder / "run", "resume")[1]["step"];
  CHECK(from >= 60);
  CHECK(from < bad);
  // Each step but those that were done again is there once, and its loss is not that of the batch.
  std::vector<double> losses;
  for (const nlohmann::json& line : event_lines(folder / "run", "step")) {
    const long step = line["step"];
    if (step <= static_cast<long>(losses.size())) losses.resize(static_cast<std::size_t>(step - 1));
    losses.push_back(line["loss"]);
  }
  REQUIRE(losses.size() == 120);
  for (std::size_t i = 1; i < losses.size(); ++i) CHECK(losses[i] < losses[i - 1] + 2);
  const auto manifest =
      parse_json<nlohmann::json>(read_file(folder / "run/checkpoints/step-00000120/manifest.json"));
  // A step has one sample.
  CHECK(manifest["skipped"] == nlohmann::json{{{"begin", from}, {"end", bad}}});
  CHECK(manifest["samples"] == 120 + bad - from);
}

#ifdef STRATA_MPIEXEC
TEST_CASE("ranks go back together", "[mpi][long]") {
  const Folder folder;
  write_rows(folder / "rows.bin", 240, 15);
  const Outcome done =
      strata_on_ranks(folder, 2,
                      train_rows(folder, "run",
                                 "--set run.steps=120 --set checkpoint.every_steps=10"
                                 " --set run.on_nonfinite=rollback --set run.loss_outlier_z=2"));
  INFO(done.text);
  REQUIRE(done.code == 0);
  const auto rollbacks = event_lines(folder / "run", "rollback");
  REQUIRE(!rollbacks.empty());
  const auto manifest =
      parse_json<nlohmann::json>(read_file(folder / "run/checkpoints/step-00000120/manifest.json"));
  CHECK(manifest["samples"] > 240);  // two a step, and what was left out
  CHECK(manifest["skipped"].size() == rollbacks.size());
}
#endif

TEST_CASE("a run that goes back again and again ends with exit code 4") {
  const Folder folder;
  write_rows(folder / "rows.bin", 200, -1);
  const Outcome ended = strata(
      folder, train_rows(folder, "run",
                         "--set run.steps=20 --set checkpoint.every_steps=1 --set optimizer.lr=1e25"
                         " --set optimizer.warmup_steps=0 --set run.on_nonfinite=rollback"));
  INFO(ended.text);
  CHECK(ended.code == 4);
  CHECK_THAT(ended.text, ContainsSubstring("3 times the run did not get past step 2"));
  CHECK(event_lines(folder / "run", "rollback").size() == 2);
  CHECK(event_lines(folder / "run", "end").at(0)["reason"] == "error");
}

}  // namespace strata::test
