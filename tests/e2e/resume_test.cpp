// Tests what a run looks at when it is started again, beside its checkpoint: its data and the
// folder of its model, which may have changed or gone meanwhile.

#include <filesystem>
#include <string>

#include "e2e/saved_runs.h"
#include "support/catch.h"

namespace strata::test {

TEST_CASE("a run does not go on with other data under the same name, unless it is told to") {
  const Folder folder;
  const std::string data = tokenize_text(folder) + " ";
  REQUIRE(strata(folder, train_short(folder, "reference", data)).code == 0);
  REQUIRE(strata(folder, train_short(folder, "run", data + "--set run.steps=8")).code == 0);
  const std::string metrics_before = read_file(folder / "run/metrics.jsonl");
  const fs::path train = folder / "train.bin";
  const fs::path val = folder / "val.bin";
  fs::rename(train, folder / "kept.bin");
  fs::copy(val, train);
  const Outcome refused = strata(folder, train_short(folder, "run", data + "--resume auto"));
  INFO(refused.text);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("data.train (" + train.string() + "): tokens: was ") &&
                               ContainsSubstring("--allow data"));
  CHECK(read_file(folder / "run/metrics.jsonl") == metrics_before);
  CHECK(names_in(folder / "run/checkpoints") == std::vector<std::string>{"step-00000008"});
  const Outcome inspected = strata(folder, "inspect --step 3 " + (folder / "run"));
  CHECK(inspected.code == 0);
  CHECK_THAT(inspected.text, ContainsSubstring("has trained on other data") &&
                                 ContainsSubstring("data.train (" + train.string()));
  const Outcome allowed = strata(
      folder, train_short(folder, "other", data + "--allow data --resume " + (folder / "run")));
  INFO(allowed.text);
  CHECK(allowed.code == 0);
  CHECK_THAT(allowed.text, ContainsSubstring("other data:"));
  // The same data elsewhere are the same run.
  const std::string moved = data + "--set data.train=" + (folder / "kept.bin") + " ";
  check_goes_on(folder, moved, 12);
}

TEST_CASE("a run whose model's folder has gone goes on with that of its checkpoint") {
  const Folder folder;
  const std::string model = folder / "model";
  REQUIRE(strata(folder, train_short(folder, "made", "--set run.steps=8")).code == 0);
  REQUIRE(strata(folder, "export " + (folder / "made") + " " + model).code == 0);
  const std::string path = "--set model.path=" + model + " ";
  REQUIRE(strata(folder, train_short(folder, "reference", path)).code == 0);
  REQUIRE(strata(folder, train_short(folder, "run", path + "--set run.steps=8")).code == 0);
  fs::remove_all(model);
  const Outcome begun = strata(folder, train_short(folder, "new", path + "--resume auto"));
  CHECK(begun.code != 0);
  CHECK_THAT(begun.text, ContainsSubstring(model));
  // Who cannot tell whether it is gone does not take it for gone.
  fs::create_symlink("model", model);
  const Outcome refused = strata(folder, train_short(folder, "run", path + "--resume auto"));
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("model.path: " + model + ": Too many levels"));
  fs::remove(model);
  const Outcome other = strata(folder, train_short(folder, "run",
                                                   path + "--resume auto "
                                                          "--set model.hidden_size=128"));
  CHECK(other.code == 2);
  CHECK_THAT(other.text, ContainsSubstring("model.hidden_size"));
  check_goes_on(folder, path, 12);
}

}  // namespace strata::test
