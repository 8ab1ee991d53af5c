// Tests that folders which somebody else has made lead the program to none of this user's files,
// neither to write there nor to take what is there along.

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "e2e/saved_runs.h"
#include "support/catch.h"

namespace strata::test {

namespace {

constexpr const char* kSecret = "what is nobody else's";

/// What is below a folder, by path: a file's bytes, or where a link leads.
std::map<std::string, std::string> tree_of(const std::string& folder) {
  std::map<std::string, std::string> tree;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string path = entry.path();
    if (entry.is_symlink()) {
      tree[path] = fs::read_symlink(path);
    } else {
      tree[path] = entry.is_directory() ? "a folder" : read_file(path);
    }
  }
  return tree;
}

/// A run of 12 steps, whose maker leaves links, and a file that is none of his.
class StrangersRun {
 public:
  StrangersRun() {
    std::ofstream(secret()) << kSecret;
    const Outcome done = train("");
    INFO(done.text);
    REQUIRE(done.code == 0);
  }
  [[nodiscard]] const Folder& folder() const { return folder_; }
  [[nodiscard]] std::string secret() const { return folder_ / "secret"; }
  [[nodiscard]] std::string run() const { return folder_ / "run"; }
  [[nodiscard]] Outcome train(const std::string& more) const {
    return strata(folder_, train_short(folder_, "run", "--set checkpoint.keep=3 " + more));
  }
  /// Puts a link to the secret in the place of a file of the run, or of its checkpoint.
  void link(const std::string& name) const {
    fs::remove(run() + "/" + name);
    fs::create_symlink(secret(), run() + "/" + name);
  }
  [[nodiscard]] bool is_kept() const { return read_file(secret()) == kSecret; }

 private:
  Folder folder_;
};

}  // namespace

TEST_CASE("no link in a run folder is written through, and the folder stays as it was") {
  const StrangersRun stranger;
  for (const std::string name : {"metrics.jsonl", "plans.json"}) {
    stranger.link(name);
    const auto before = tree_of(stranger.run());
    for (const std::string way : {"--resume auto", "--resume 12"}) {
      const Outcome refused = stranger.train(way);
      INFO(refused.text);
      CHECK(refused.code == 2);
      CHECK_THAT(refused.text, ContainsSubstring(stranger.run() + "/" + name + " is a link") &&
                                   ContainsSubstring("remove or rename it"));
      CHECK(tree_of(stranger.run()) == before);
    }
    fs::remove(stranger.run() + "/" + name);
  }
  stranger.link("metrics.jsonl");
  stranger.link("train.log");
  const Outcome replaced = stranger.train("--overwrite");
  INFO(replaced.text);
  CHECK(replaced.code == 0);
  CHECK(fs::is_regular_file(fs::symlink_status(stranger.run() + "/metrics.jsonl")));
  CHECK(metrics(stranger.run()).size() > 12);
  CHECK(stranger.is_kept());
}

TEST_CASE("no export and no checkpoint has what lies behind a link in the checkpoint before") {
  const StrangersRun stranger;
  const std::string last = "checkpoints/step-00000012/model/";
  stranger.link(last + "x.tiktoken");
  stranger.link(last + "added_tokens.json");
  for (const std::string dtype : {"bf16", "f32"}) {
    const std::string model = stranger.folder() / ("model-" + dtype);
    const Outcome made =
        strata(stranger.folder(), "export " + stranger.run() + " " + model + " --dtype " + dtype);
    INFO(made.text);
    CHECK(made.code == 0);
    CHECK_FALSE(fs::exists(model + "/x.tiktoken"));
    CHECK_FALSE(fs::exists(model + "/added_tokens.json"));
  }
  const Outcome done = stranger.train("--resume auto --set run.steps=16 --allow run.steps");
  INFO(done.text);
  CHECK(done.code == 0);
  CHECK_FALSE(fs::exists(checkpoint(stranger.run(), 16) + "/model/x.tiktoken"));
  CHECK_FALSE(fs::exists(checkpoint(stranger.run(), 16) + "/model/added_tokens.json"));
  stranger.link("checkpoints/step-00000016/model/config.json");
  const std::string model = stranger.folder() / "model";
  const Outcome refused =
      strata(stranger.folder(), "export " + stranger.run() + " " + model + " --dtype f32");
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("config.json: open: "));
  CHECK_FALSE(fs::exists(model));
}

TEST_CASE("no import has what lies behind a link out of the model's folder") {
  const StrangersRun stranger;
  const std::string model = stranger.folder() / "model", made = stranger.folder() / "made";
  REQUIRE(strata(stranger.folder(), "export " + stranger.run() + " " + model).code == 0);
  const std::string import = "import " + model + " " + made;
  for (const std::string name : {"x.tiktoken", "added_tokens.json", "tokenizer.json"}) {
    fs::create_symlink(stranger.secret(), model + "/" + name);
    const Outcome refused = strata(stranger.folder(), import);
    INFO(refused.text);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.text, ContainsSubstring("model/" + name + ": is a link to ") &&
                                 ContainsSubstring("cp -rL"));
    CHECK_FALSE(fs::exists(made));
    fs::remove(model + "/" + name);
  }
  // A hub cache keeps the files of a snapshot elsewhere.
  const std::string cache = stranger.folder() / "models--who--what";
  fs::create_directories(cache + "/snapshots/12ab");
  fs::rename(model, cache + "/blobs");
  for (const fs::directory_entry& blob : fs::directory_iterator(cache + "/blobs")) {
    const std::string name = blob.path().filename();
    fs::create_symlink("../../blobs/" + name, cache + "/snapshots/12ab/" + name);
  }
  const Outcome imported = strata(stranger.folder(), "import " + cache + "/snapshots/12ab " + made);
  INFO(imported.text);
  CHECK(imported.code == 0);
}

TEST_CASE("no report has what lies behind a link in the run folder") {
  const StrangersRun stranger;
  std::ofstream(stranger.secret()) << R"({"password": ")" << kSecret << "\"}";
  stranger.link("config.json");
  const Outcome made = strata(stranger.folder(), "report " + stranger.run() + " --output " +
                                                     (stranger.folder() / "page.html"));
  INFO(made.text);
  CHECK(made.code == 0);
  CHECK_THAT(made.text, ContainsSubstring("config.json: is a link"));
  CHECK_THAT(read_file(stranger.folder() / "page.html"), !ContainsSubstring(kSecret));
  stranger.link("metrics.jsonl");
  CHECK(strata(stranger.folder(), "report " + stranger.run()).code == 2);
}

}  // namespace strata::test
