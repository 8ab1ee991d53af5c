// Tests that a run which goes on notices other data than it had, whatever their names, and says
// what differs and what to do.

#include "strata/train/data_contents.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/data/token_file.h"
#include "support/catch.h"
#include "support/scratch_folder.h"
#include "support/thread_ranks.h"
#include "support/tiny_config.h"

namespace strata::test {

namespace {

/// What a file of tokens has; all but the first 1000 tokens are the same in every file.
struct Tokens {
  std::int64_t count = 2000;
  std::int32_t first = 1;
  std::int64_t document = 50;
  std::uint64_t tokenizer = 7;
};

std::string write_documents(const std::string& file, const Tokens& tokens) {
  TokenFileWriter writer(
      file, {.type = TokenType::kU16, .vocabulary = 40, .tokenizer_hash = tokens.tokenizer});
  for (std::int64_t i = 0; i < tokens.count; ++i) {
    const std::int32_t id = i < 1000 ? tokens.first : 2;
    writer.append(std::span(&id, 1));
    if ((i + 1) % tokens.document == 0) writer.end_document();
  }
  writer.close();
  writer.publish();
  return file;
}

/// A run of 3 steps that has trained on one or two files, and validated on a third.
class TrainedRun {
 public:
  TrainedRun() {
    config_ = tiny_config();
    config_.data.synthetic = false;
    config_.data.train.list = {{.files = {write("a.bin", {})}, .weight = 1},
                               {.files = {write("b.bin", {.first = 3})}, .weight = 2}};
    config_.data.validation = write("val.bin", {.count = 100});
    config_.run.eval_every = 1;
    checkpoint_.folder = "/run/checkpoints/step-00000003";
    save(config_);
  }

  [[nodiscard]] std::string write(const std::string& name, const Tokens& tokens) const {
    return write_documents(folder_.file(name), tokens);
  }
  [[nodiscard]] const RunConfig& config() const { return config_; }
  [[nodiscard]] FoundCheckpoint& checkpoint() { return checkpoint_; }
  /// Makes the checkpoint one of a run with this config.
  void save(const RunConfig& config, int ranks = 1) {
    checkpoint_.manifest.step = 3;
    checkpoint_.manifest.config = write_fields(config);
    checkpoint_.manifest.data = read_run_data(config, ranks);
  }

  struct Outcome {
    std::string refusal{};
    std::string warnings{};
    RunData data{};
  };
  [[nodiscard]] Outcome go_on(const RunConfig& config,
                              std::vector<std::string> allowed = {}) const {
    Outcome outcome{.data = read_run_data(config, 1)};
    const ResumeRequest request{.from = "auto", .allowed = std::move(allowed)};
    try {
      static_cast<void>(compare_with_checkpoint(config, checkpoint_, request));
      for (const std::string& line : compare_data(config, outcome.data, checkpoint_, request)) {
        outcome.warnings += line + "\n";
      }
    } catch (const ConfigError& error) {
      outcome.refusal = error.what();
    }
    return outcome;
  }

 private:
  ScratchFolder folder_;
  RunConfig config_;
  FoundCheckpoint checkpoint_;
};

}  // namespace

TEST_CASE("the same data under other names are the same data") {
  TrainedRun run;
  RunConfig moved = run.config();
  moved.data.train.list[0].files = {run.write("moved-a.bin", {})};
  moved.data.train.list[1].files = {run.write("moved-b.bin", {.first = 3})};
  moved.data.validation = run.write("moved-val.bin", {.count = 100});
  for (const RunConfig& config : {run.config(), moved}) {
    const TrainedRun::Outcome outcome = run.go_on(config);
    CHECK(outcome.refusal == "");
    CHECK(outcome.warnings == "");
    CHECK(outcome.data.validation_since == 0);
    CHECK(outcome.data == run.checkpoint().manifest.data);
  }
}

TEST_CASE("other data are refused with what differs of which source, and may be allowed") {
  TrainedRun run;
  struct Case {
    std::string name;
    Tokens tokens;
    std::string place;
    std::string difference;
  };
  for (const Case& other : {
           Case{"a.bin",
                {.first = 9},
                "data.train[0] (",
                "as many tokens, but others; digest: was "},
           Case{"a.bin", {.count = 2050}, "data.train[0] (", "tokens: was 2,000, is 2,050"},
           Case{"a.bin", {.document = 100}, "data.train[0] (", "documents: was 40, is 20"},
           Case{"b.bin",
                {.first = 3, .tokenizer = 8},
                "data.train[1] (",
                "tokenizer: was 0000000000000007, is 0000000000000008"},
           Case{"val.bin", {.count = 150}, "data.validation (", "tokens: was 100, is 150"},
       }) {
    INFO(other.name << " " << other.difference);
    const std::string file = run.write(other.name, other.tokens);
    CHECK_THAT(run.go_on(run.config()).refusal,
               ContainsSubstring("--allow data:") &&
                   ContainsSubstring("\n  " + other.place + file + "): " + other.difference));
    const TrainedRun::Outcome allowed = run.go_on(run.config(), {"data"});
    CHECK(allowed.refusal == "");
    CHECK_THAT(allowed.warnings, ContainsSubstring(other.place + file + "): " + other.difference));
    const bool of_training = other.name != "val.bin";
    CHECK(run.go_on(run.config(), {"data.train"}).refusal.empty() == of_training);
    CHECK(allowed.data.validation_since == (of_training ? 0 : 3));
    const Tokens before{.count = other.name == "val.bin" ? 100 : 2000,
                        .first = other.name == "b.bin" ? 3 : 1};
    static_cast<void>(run.write(other.name, before));
    REQUIRE(run.go_on(run.config()).refusal == "");
  }
}

TEST_CASE("another mix of the same data is a key that changes the numbers") {
  TrainedRun run;
  RunConfig now = run.config();
  now.data.train.list[1].weight = 3;
  CHECK_THAT(run.go_on(now).refusal, ContainsSubstring("--allow data.train"));
  CHECK(run.go_on(now, {"data.train"}).refusal == "");
  now = run.config();
  now.data.train.list.pop_back();
  CHECK_THAT(run.go_on(now).refusal, ContainsSubstring("--allow data.train"));
  CHECK(run.go_on(now, {"data"}).refusal == "");
  now = run.config();
  std::swap(now.data.train.list[0].files, now.data.train.list[1].files);
  CHECK_THAT(run.go_on(now).refusal,
             ContainsSubstring("data.train[0]") && ContainsSubstring("data.train[1]"));
}

TEST_CASE("a checkpoint that does not tell its data goes on with a warning") {
  TrainedRun run;
  run.checkpoint().manifest.data = {};
  const TrainedRun::Outcome outcome = run.go_on(run.config());
  CHECK(outcome.refusal == "");
  CHECK_THAT(outcome.warnings, ContainsSubstring("/run/checkpoints/step-00000003 does not say what "
                                                 "its data held"));
  CHECK(outcome.data.validation_since == 0);
  // Names are all that there is to compare then.
  RunConfig other = run.config();
  other.data.train.list[0].files = {run.write("moved-a.bin", {})};
  CHECK_THAT(run.go_on(other).refusal, ContainsSubstring("--allow data.train"));
  other = run.config();
  other.data.validation = run.write("moved-val.bin", {.count = 100});
  CHECK(run.go_on(other).data.validation_since == 3);
  RunConfig synthetic = tiny_config();
  run.save(synthetic);
  run.checkpoint().manifest.data = {};
  CHECK(run.go_on(synthetic).warnings == "");
}

TEST_CASE("another number of tokens a step is a warning with both numbers") {
  TrainedRun run;
  run.save(run.config(), 2);
  CHECK_THAT(run.go_on(run.config()).warnings,
             ContainsSubstring("a step has 42 tokens now, and had 84 before"));
  RunConfig as_many = run.config();
  as_many.schedule.passes = 2;
  CHECK(run.go_on(as_many).warnings == "");
}

TEST_CASE("validation on other rows is not compared with that before, and says so once") {
  TrainedRun run;
  RunConfig few = run.config();
  few.run.eval_batches = 2;
  const TrainedRun::Outcome outcome = run.go_on(few);
  CHECK(outcome.refusal == "");
  CHECK_THAT(outcome.warnings, ContainsSubstring("other data or rows than before step 3"));
  CHECK(outcome.data.validation_since == 3);
  // The run that goes on from there knows it.
  run.checkpoint().manifest.data = outcome.data;
  run.checkpoint().manifest.config = write_fields(few);
  run.checkpoint().manifest.step = 5;
  CHECK(run.go_on(few).warnings == "");
  CHECK(run.go_on(few).data.validation_since == 3);
  RunConfig wide = few;
  wide.schedule.sub_batches *= 2;
  CHECK(run.go_on(wide).data.validation_since == 5);
  RunConfig longer = few;
  longer.data.sequence_length = 5;
  CHECK(run.go_on(longer, {"data.sequence_length"}).data.validation_since == 5);
}

TEST_CASE("what rank 0 finds of the data holds for all ranks") {
  TrainedRun run;
  static_cast<void>(run.write("val.bin", {.count = 150}));
  for (const std::vector<std::string>& allowed :
       {std::vector<std::string>(), std::vector<std::string>{"data"}}) {
    std::mutex mutex;
    std::vector<std::string> failures;
    std::vector<std::int64_t> since;
    run_ranks(3, [&](Ranks& group) {
      std::string failure;
      RunData data;
      try {
        data = agree_on_data(run.config(), run.checkpoint(), {.from = "auto", .allowed = allowed},
                             group);
      } catch (const Error& error) {
        failure = error.what();
      }
      const std::lock_guard lock(mutex);
      failures.push_back(failure);
      since.push_back(data.validation_since);
    });
    const bool refused = allowed.empty();
    for (const std::string& failure : failures) {
      CHECK((failure.find("--allow data") != std::string::npos) == refused);
    }
    CHECK(since == std::vector<std::int64_t>(3, refused ? 0 : 3));
  }
}

}  // namespace strata::test
