// Tests runs that end because their validations gain nothing more, and which checkpoints they keep.
// Their learning rate is so low that no weight changes: each validation has the loss of the first.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "e2e/program.h"
#include "e2e/saved_runs.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"

namespace strata::test {
namespace {

using Names = std::vector<std::string>;

/// Arguments of a run on the token files of tokenize_text() that learns nothing.
std::string train_in_vain(const Folder& folder, const std::string& data, const std::string& more) {
  return train_short(folder, "run",
                     data +
                         " --set optimizer.lr=1e-30 --set optimizer.warmup_steps=1 --set "
                         "run.eval_every=2 --set run.eval_batches=2 --set run.patience=3"
                         " --set checkpoint.every_steps=2 " +
                         more);
}

void check_ended_at(const Folder& folder, const Outcome& ended, long step) {
  INFO(ended.text);
  REQUIRE(ended.code == 0);
  const nlohmann::json end = metrics(folder / "run").back();
  CHECK(end["event"] == "end");
  CHECK(end["reason"] == "patience");
  CHECK(lines_of(folder / "run", "step").back()["step"] == step);
}

nlohmann::json validations_in(const Folder& folder, long step) {
  return parse_json<nlohmann::json>(read_file(checkpoint(folder / "run", step) + "/manifest.json"))
      .at("validations");
}

}  // namespace

TEST_CASE("a run ends when its validations gain nothing more, and keeps the best state") {
  const Folder folder;
  const std::string data = tokenize_text(folder);
  const Outcome ended = strata(
      folder, train_in_vain(folder, data, "--set run.steps=100 --set checkpoint.keep_best=1"));
  check_ended_at(folder, ended, 8);
  CHECK_THAT(ended.text, ContainsSubstring("3 validations without gain (run.patience), the lowest "
                                           "loss") &&
                             ContainsSubstring("after step 2: 8 of 100 steps") &&
                             ContainsSubstring("export " + checkpoint(folder / "run", 2)));
  CHECK(names_in(folder / "run/checkpoints") == Names{"step-00000002", "step-00000008"});
  CHECK(validations_in(folder, 2)["without_gain"] == 0);
  const nlohmann::json last = validations_in(folder, 8);
  CHECK(last["without_gain"] == 3);
  CHECK(last["last"]["step"] == 8);
  CHECK(last["best"]["step"] == 2);
  CHECK(last["best"]["loss"] == lines_of(folder / "run", "eval").front()["val_loss"]);
  const Outcome shown = strata(folder, "inspect " + (folder / "run"));
  CHECK_THAT(shown.text, ContainsSubstring("step-00000002: loss") &&
                             ContainsSubstring("finite, validation loss"));
}

TEST_CASE("a run that goes on counts validations on, and one out of patience is done") {
  const Folder folder;
  const std::string data = tokenize_text(folder);
  const auto train = [&](const std::string& more) {
    return strata(folder, train_in_vain(folder, data, more));
  };
  REQUIRE(train("--set run.steps=4").code == 0);  // the validation at its end gains nothing
  check_ended_at(folder, train("--set run.steps=100 --resume auto"), 8);
  const Outcome done = train("--set run.steps=100 --resume auto");
  CHECK(done.code == 0);
  CHECK_THAT(done.text, ContainsSubstring("done: " + checkpoint(folder / "run", 8)) &&
                            ContainsSubstring("raise run.patience to go on"));
  CHECK(train("--set run.steps=100 --resume 8").code == 2);
  check_ended_at(folder, train("--set run.steps=100 --set run.patience=5 --resume auto"), 12);
}

TEST_CASE("a run that goes back from a bad step counts as it had counted there", "[long]") {
  const Folder folder;
  const std::string data = tokenize_text(folder);
  {
    // Rows of 16 tokens, of which the 78th has one alone and so another gradient.
    std::ofstream rows(folder / "rows.bin", std::ios::binary);
    for (int i = 0; i <= 400 * 16; ++i) {
      const int token = i / 16 == 77 ? 5 : 11 * i % 251;
      rows.put(static_cast<char>(token)).put('\0');
    }
  }
  const auto train = [&](const std::string& more) {
    return strata(folder,
                  train_in_vain(folder, data,
                                " --set data.dtype=u16 --set data.train=" + (folder / "rows.bin") +
                                    " --set data.shuffle=false --set schedule.sub_batches=1"
                                    " --set run.eval_every=5 --set run.patience=20"
                                    " --set checkpoint.every_steps=10 --set checkpoint.keep=2"
                                    " --set run.norm_outlier_z=6"
                                    " --set run.on_nonfinite=rollback " +
                                    more));
  };
  // A first part ends with a checkpoint, so that there is one to go back to.
  REQUIRE(train("--set run.steps=70").code == 0);
  const Outcome ended = train("--set run.steps=400 --resume auto");
  // The one after step 5 is the best, and that after step 75 was done twice and counted once.
  check_ended_at(folder, ended, 105);
  CHECK(lines_of(folder / "run", "rollback").size() == 1);
}

#ifdef STRATA_MPIEXEC
TEST_CASE("ranks run out of patience together", "[mpi]") {
  const Folder folder;
  const std::string data = tokenize_text(folder);
  const Outcome ended = strata_on_ranks(
      folder, 2, train_in_vain(folder, data, "--set run.steps=100 --set checkpoint.keep_best=1"));
  check_ended_at(folder, ended, 8);
  CHECK(names_in(folder / "run/checkpoints") == Names{"step-00000002", "step-00000008"});
}

TEST_CASE("a checkpoint that one rank alone was asked for at the end is saved by all",
          "[mpi][long]") {
  if (kSanitized) return;
  const Folder folder;
  const std::string data = tokenize_text(folder);
  const std::string without =
      "--set checkpoint.at_end=false --set checkpoint.every_steps=50 --overwrite ";
  const std::string disturbed = kMpiExec + "-n 2 env FAULT_RANK=0 FAULT_PATH=/val.bin LD_PRELOAD=" +
                                built("libfaulty_disk.so") + " ";
  const std::string train =
      kProgram + train_in_vain(folder, data, "--set run.steps=100 " + without);
  const Outcome once =
      run(folder, disturbed + "COUNT_CALL=pread COUNT_FILE=" + (folder / "count") + " " + train);
  check_ended_at(folder, once, 8);
  CHECK_FALSE(fs::exists(folder / "run/checkpoints"));
  const long reads = std::stol(read_file(folder / "count"));
  const Gate gate(folder);  // in the last validation
  Process process(folder, disturbed + "HOLD_CALL=pread HOLD_AFTER=" + std::to_string(reads - 1) +
                              gate.known_as("HOLD_UNTIL") + train);
  gate.wait_until_held(process);
  std::ofstream(folder / "run/save").close();
  gate.open();
  const int code = process.wait();
  INFO(process.text());
  CHECK(code == 0);
  CHECK(names_in(folder / "run/checkpoints") == Names{"step-00000008"});
  CHECK_FALSE(fs::exists(folder / "run/save"));
}
#endif

}  // namespace strata::test
