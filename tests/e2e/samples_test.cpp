// Tests samples of a run by the program: what is in samples.jsonl, how a run goes on with it, and
// which keys are refused.

#include "e2e/lines.h"

namespace strata::test {

namespace {

const std::string kSamples =
    R"( --set run.sample_every=2 --set run.sample_tokens=8 --set 'run.sample_prompts=["line "]' )";

}  // namespace

TEST_CASE("a run writes samples, and one that is resumed goes on with them") {
  const Folder folder;
  const std::string data = tokenize_text(folder) + " --set checkpoint.every_steps=1 ";
  const Outcome plain = strata(folder, train_tiny(folder, "plain", data));
  INFO(plain.text);
  REQUIRE(plain.code == 0);
  const Outcome trained = strata(folder, train_tiny(folder, "run", data + kSamples));
  INFO(trained.text);
  REQUIRE(trained.code == 0);
  CHECK(losses(folder / "run") == losses(folder / "plain"));
  CHECK(difference(checkpoint(folder / "run", 4), checkpoint(folder / "plain", 4)) == "");
  CHECK_THAT(trained.text, ContainsSubstring("step 2/4 sample: line "));
  const std::vector<nlohmann::json> lines = lines_of(folder / "run/samples.jsonl");
  REQUIRE(lines.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(lines[i]["step"] == 2 * (i + 1));
    CHECK(lines[i]["prompt"].get<std::string>() == "line ");
    CHECK(lines[i]["text"].is_string());
    CHECK(lines[i]["prompt_tokens"] == 5);
    CHECK(lines[i]["tokens"].get<int>() >= 1);
    CHECK(lines[i]["tokens"].get<int>() <= 8);
  }
  // Other prompts change no number of the run.
  const Outcome resumed = strata(folder, train_tiny(folder, "run",
                                                    data + kSamples +
                                                        "--resume auto --set run.steps=6"
                                                        " --set run.sample_tokens=4"));
  INFO(resumed.text);
  REQUIRE(resumed.code == 0);
  const std::vector<nlohmann::json> all = lines_of(folder / "run/samples.jsonl");
  REQUIRE(all.size() == 3);
  CHECK(all[2]["step"] == 6);
  CHECK(all[2]["tokens"].get<int>() <= 4);
}

TEST_CASE("keys of samples that cannot be are refused by name") {
  const Folder folder;
  const auto refused = [&](const std::string& more, const std::string& text) {
    check_refused(folder, train_tiny(folder, "run", more), text);
  };
  refused("--set run.sample_every=-1", "run.sample_every: must be from 0");
  refused("--set run.sample_every=1 --set run.sample_tokens=0",
          "run.sample_tokens: must be from 1");
  refused("--set run.sample_every=1 --set run.sample_tokens=100000",
          "run.sample_tokens: and a prompt must be at most");
  refused("--set run.sample_every=1 --set 'run.sample_prompts=[\"\"]'",
          "run.sample_prompts: has a text without a character");
  refused("--set run.sample_every=1 --set run.trace_step=2", "run.trace_step: needs two steps");
  refused("--set run.sample_every=1 --set model.vocab_size=300", "model.tokenizer: samples");
  refused("--set run.sample_every=1 --set model.tokenizer=" + (folder / "nowhere.json"),
          "nowhere.json");
}

#ifdef STRATA_MPIEXEC
TEST_CASE("ranks of processes draw together and one writes", "[mpi][long]") {
  const Folder folder;
  const std::string data = tokenize_text(folder) + kSamples + " --set run.dtype=f64 ";
  const Outcome two =
      strata_on_ranks(folder, 2, train_tiny(folder, "two", data + "--set schedule.sub_batches=1"));
  INFO(two.text);
  REQUIRE(two.code == 0);
  const Outcome one = strata(folder, train_tiny(folder, "one", data));
  INFO(one.text);
  REQUIRE(one.code == 0);
  CHECK(lines_of(folder / "one/samples.jsonl").size() == 2);
  CHECK(lines_of(folder / "two/samples.jsonl") == lines_of(folder / "one/samples.jsonl"));
}
#endif

}  // namespace strata::test
