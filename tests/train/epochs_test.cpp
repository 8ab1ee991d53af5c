// Tests that epochs become the steps that read the training set as often, and are said in words,
// against numbers worked out by hand.

#include "strata/train/epochs.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/data/token_file.h"
#include "support/catch.h"
#include "support/scratch_folder.h"
#include "support/tiny_config.h"

namespace strata {
namespace {

std::string write_tokens(const std::string& file, std::int64_t count) {
  TokenFileWriter writer(file, {.type = TokenType::kU16, .vocabulary = 13, .tokenizer_hash = 7});
  const std::int32_t id = 3;
  for (std::int64_t i = 0; i < count; ++i) writer.append(std::span(&id, 1));
  writer.close();
  writer.publish();
  return file;
}

/// A run whose rows have 7 tokens; a step of a rank takes 6 of them.
RunConfig run_on(const std::vector<FileSource>& sources) {
  RunConfig config = test::tiny_config();
  config.data.synthetic = false;
  config.data.train.list = sources;
  return config;
}

}  // namespace

TEST_CASE("epochs are as many steps as read all rows so often, rounded up") {
  CHECK(steps_of_epochs(1, 100, 10) == 10);
  CHECK(steps_of_epochs(1, 101, 10) == 11);
  CHECK(steps_of_epochs(3, 101, 10) == 31);
  CHECK(steps_of_epochs(0.3, 10, 1) == 3);
  CHECK(steps_of_epochs(0.001, 10, 10) == 1);
  CHECK_THROWS_AS(steps_of_epochs(1e12, 1000, 1), ConfigError);
}

TEST_CASE("a run of epochs has the steps of its data and ranks, and says both") {
  const ScratchFolder folder;
  // 101 tokens are 14 rows of 7 with the target of the last.
  RunConfig config = run_on({{.files = {write_tokens(folder.file("a.bin"), 101)}}});
  config.run.epochs = 3;
  const RunConfig alone = with_steps_of_epochs(config, 1);
  CHECK(alone.run.steps == 7);  // 42 rows of 6
  CHECK_FALSE(alone.run.epochs.has_value());
  CHECK(with_steps_of_epochs(config, 2).run.steps == 4);
  CHECK(epochs_text(alone, open_training_set(alone), 1) == "7 steps = 3.00 epochs of 14 rows");
  CHECK(epochs_text(alone, open_training_set(alone), 2) == "7 steps = 6.00 epochs of 14 rows");
}

TEST_CASE("an epoch of a mixture is all rows of its sources together, and each has its own") {
  const ScratchFolder folder;
  const std::string a = write_tokens(folder.file("a.bin"), 71);   // 10 rows
  const std::string b = write_tokens(folder.file("b.bin"), 351);  // 50 rows
  RunConfig config = run_on({{.files = {a}, .weight = 0.5}, {.files = {b}, .weight = 0.5}});
  config.run.epochs = 1;
  const RunConfig counted = with_steps_of_epochs(config, 1);
  CHECK(counted.run.steps == 10);
  CHECK(epochs_text(counted, open_training_set(counted), 1) ==
        "10 steps = 1.00 epochs of 60 rows: " + a + " 3.00, " + b + " 0.60");
}

TEST_CASE("what the steps of epochs break is said with their number") {
  const ScratchFolder folder;
  RunConfig config = run_on({{.files = {write_tokens(folder.file("a.bin"), 101)}}});
  config.run.epochs = 1;
  config.optimizer.warmup_steps = 20;
  CHECK_THROWS_WITH(with_steps_of_epochs(config, 1),
                    ContainsSubstring("run.epochs, which is 3 steps") &&
                        ContainsSubstring("optimizer.warmup_steps: is above run.steps (3)"));
  config.data.train.list = {{.files = {folder.file("absent.bin")}}};
  CHECK_THROWS_WITH(with_steps_of_epochs(config, 1), ContainsSubstring("absent.bin"));
}

}  // namespace strata
