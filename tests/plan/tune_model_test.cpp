// What `tune` starts from: how a model alone and a run config are read, which keys count as given,
// and which of the others are searched. Expectations are worked out by hand.

#include "strata/plan/tune_model.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/error.h"
#include "support/catch.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

/// Writes a model as Hugging Face does, with rows of at most so many tokens. Returns its folder.
std::string write_model(const ScratchFolder& folder, std::int64_t positions) {
  folder.write("model/config.json", R"({"model_type": "llama", "vocab_size": 512,
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": )" +
                                        std::to_string(positions) + "}");
  return folder.file("model");
}

/// Writes a run config of rows of 64 tokens with these further sections.
std::string write_run(const ScratchFolder& folder, const std::string& sections) {
  return folder.write("run.json", R"({"model": {"vocab_size": 512, "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64}, "data": {"sequence_length": 64})" +
                                      sections + "}");
}

bool has(const std::vector<std::string>& keys, std::string_view key) {
  return std::ranges::find(keys, key) != keys.end();
}

TuneSpace space_of(const TuneRequest& request, int ranks = 1) {
  return tune_space(load_tune_model(request), request, ranks);
}

std::string space_complaint(const TuneRequest& request, int ranks = 1) {
  try {
    (void)space_of(request, ranks);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a model alone is a run of rows of up to 4,096 tokens that clips at 1") {
  const ScratchFolder folder;
  for (const std::int64_t positions : {1024, 4096, 131072}) {
    const TuneModel model = load_tune_model({.model = write_model(folder, positions)});
    CHECK(model.given.model.llama.hidden_size == 64);
    CHECK(model.given.data.sequence_length == (positions == 1024 ? 1024 : 4096));
    CHECK(model.given.optimizer.grad_clip == 1.0);
    CHECK(model.keys.empty());
    // What stands in for a training set is not written later.
    CHECK(model.base.data.synthetic);
    CHECK_FALSE(model.given.data.synthetic);
  }
}

TEST_CASE("a model's folder is its path if weights are there, by the name of folder or file") {
  const ScratchFolder folder;
  const std::string model = write_model(folder, 64);
  CHECK(load_tune_model({.model = model}).given.model.path.empty());
  folder.write("model/model.safetensors", "");
  CHECK(load_tune_model({.model = model}).given.model.path == model);
  CHECK(load_tune_model({.model = model + "/config.json"}).given.model.path == model);
}

TEST_CASE("keys that a run config, --set or another option gives are known, and by whom") {
  const ScratchFolder folder;
  const std::string run = write_run(folder, R"(, "schedule": {"rows": 2})");
  const TuneModel model = load_tune_model({.model = run,
                                           .sets = {"optimizer.timing=speculative"},
                                           .backend = "cpu",
                                           .sequence_length = 32,
                                           .grad_clip = "0.5"});
  for (const char* key : {"schedule.rows", "data.sequence_length", "model.hidden_size",
                          "optimizer.timing", "optimizer.grad_clip", "run.backend"}) {
    CAPTURE(key);
    CHECK(has(model.keys, key));
  }
  CHECK_FALSE(has(model.keys, "schedule.passes"));
  CHECK_FALSE(has(model.typed_keys, "schedule.rows"));
  CHECK(has(model.typed_keys, "optimizer.timing"));
  CHECK(has(model.typed_keys, "data.sequence_length"));
  CHECK(model.option_sets == std::vector<std::string>{"data.sequence_length=32",
                                                      "optimizer.grad_clip=0.5",
                                                      "run.backend=cpu"});
  CHECK(model.base.data.sequence_length == 32);
  CHECK(model.base.optimizer.grad_clip == 0.5);
  CHECK(model.base.optimizer.timing == UpdateTiming::kSpeculative);
  CHECK(model.base.run.backend == BackendChoice::kCpu);
  const TuneModel unclipped = load_tune_model({.model = run, .grad_clip = "none"});
  CHECK_FALSE(unclipped.base.optimizer.grad_clip);
}

TEST_CASE("what a run config says of data and warm-up is written as it was given") {
  const ScratchFolder folder;
  const TuneModel model =
      load_tune_model({.model = write_run(folder, R"(, "run": {"steps": 3, "eval_every": 2},
                                     "optimizer": {"warmup_steps": 100})")});
  // The run that is planned has no training set and three steps.
  CHECK(model.base.data.synthetic);
  CHECK(model.base.run.eval_every == 0);
  CHECK(model.base.optimizer.warmup_steps == 3);
  CHECK_FALSE(model.given.data.synthetic);
  CHECK(model.given.run.eval_every == 2);
  CHECK(model.given.optimizer.warmup_steps == 100);
}

TEST_CASE("a rank's step has 65,536 tokens unless somebody says how many all ranks have") {
  const ScratchFolder folder;
  const std::string model = write_model(folder, 8192);  // rows of 4096 tokens
  CHECK(space_of({.model = model}).step_rows == 16);
  CHECK(space_of({.model = model}, 2).step_rows == 16);
  CHECK(space_of({.model = model, .tokens = 32768}, 2).step_rows == 4);
  CHECK(space_of({.model = model, .tokens = 32768, .sequence_length = 512}, 2).step_rows == 32);
  const TuneSpace space = space_of({.model = model});
  CHECK((space.rows && space.sub_batches && space.passes && space.timing && space.gradient_ring));
  CHECK_FALSE(space.moment_dtype);
}

TEST_CASE("the shape of a step that a config gives stays unless --tokens says another") {
  const ScratchFolder folder;
  const std::string run =
      write_run(folder, R"(, "schedule": {"rows": 2, "sub_batches": 3, "passes": 5})");
  const TuneSpace kept = space_of({.model = run});
  CHECK(kept.step_rows == 30);
  CHECK_FALSE((kept.rows || kept.sub_batches || kept.passes));
  CHECK(kept.timing);
  const TuneSpace anew = space_of({.model = run, .tokens = 512});
  CHECK(anew.step_rows == 8);
  CHECK((anew.rows && anew.sub_batches && anew.passes));
  // What is typed beside --tokens is meant, and so is what is allowed.
  const TuneSpace typed = space_of({.model = run, .sets = {"schedule.rows=4"}, .tokens = 512});
  CHECK((!typed.rows && typed.sub_batches && typed.passes));
  const TuneSpace allowed = space_of({.model = run, .allowed = {"schedule.passes"}});
  CHECK((!allowed.rows && !allowed.sub_batches && allowed.passes));
  CHECK(allowed.step_rows == 30);
}

TEST_CASE("--tokens is in place of the step_rows of a file, not of those that are typed") {
  const ScratchFolder folder;
  const std::string run = write_run(folder, R"(, "schedule": {"rows": 4, "step_rows": 3})");
  CHECK(load_tune_model({.model = run}).given.schedule.step_rows == 3);
  const TuneModel anew = load_tune_model({.model = run, .tokens = 512});
  CHECK_FALSE(anew.base.schedule.step_rows);
  CHECK_FALSE(anew.given.schedule.step_rows);
  const TuneModel typed =
      load_tune_model({.model = run, .sets = {"schedule.step_rows=2"}, .tokens = 512});
  CHECK(typed.given.schedule.step_rows == 2);
}

TEST_CASE("keys of the optimizer that are given are not searched unless they are allowed") {
  const ScratchFolder folder;
  const std::string run = write_run(folder, R"(, "optimizer": {"timing": "on_arrival",
    "grad_clip": null, "gradient_ring": null, "moment_dtype": "f32"})");
  const TuneSpace kept = space_of({.model = run});
  CHECK_FALSE((kept.timing || kept.gradient_ring || kept.moment_dtype));
  const TuneSpace allowed =
      space_of({.model = run, .allowed = {"optimizer.timing", "optimizer.moment_dtype"}});
  CHECK((allowed.timing && !allowed.gradient_ring && allowed.moment_dtype));
  CHECK_FALSE((allowed.master || allowed.products || allowed.base_format));
  const TuneSpace numbers =
      space_of({.model = run, .allowed = {"optimizer.master", "run.products"}});
  CHECK((numbers.master && numbers.products && !numbers.moment_dtype));
  CHECK_THAT(space_complaint({.model = run, .allowed = {"adapter.base_format"}}),
             ContainsSubstring("adapter.base_format needs a config with a section adapter"));
}

TEST_CASE("tokens that make no step, and keys that nobody searches, are refused with a remedy") {
  const ScratchFolder folder;
  const std::string model = write_model(folder, 8192);
  CHECK_THAT(space_complaint({.model = model, .tokens = 10000}),
             ContainsSubstring("whole rows of 4096 for each of 1 rank; give 8192 or 12288"));
  CHECK_THAT(space_complaint({.model = model, .tokens = 4096}, 2),
             ContainsSubstring("each of 2 ranks; give 8192 or 16384"));
  CHECK_THAT(space_complaint({.model = model, .tokens = std::int64_t{1} << 41}),
             ContainsSubstring("1,099,511,627,776 tokens at most"));
  CHECK_THAT(
      space_complaint({.model = model, .tokens = std::int64_t{1} << 33, .sequence_length = 1}),
      ContainsSubstring("2,147,483,648 rows at most"));
  CHECK_THAT(space_complaint({.model = model,
                              .sets = {"schedule.rows=1048576", "schedule.passes=65536"},
                              .sequence_length = 64}),
             ContainsSubstring("a step of more than 2,147,483,648 rows; lower them"));
  const std::string unsearched = space_complaint({.model = model, .allowed = {"optimizer.lr"}});
  CHECK_THAT(unsearched, ContainsSubstring("--allow: optimizer.lr is not searched"));
  CHECK_THAT(unsearched, ContainsSubstring("schedule.rows, schedule.sub_batches"));
  CHECK_THROWS_AS(load_tune_model({.model = folder.file("nothing")}), IoError);
}

}  // namespace strata
