// A run that goes on from a checkpoint must end as one that was never interrupted: to the bit where
// the options promise equal bits, within rounding on another number of ranks. State that is loaded
// into other homes, shares or dtypes is compared with values that the test computes.

#include "strata/train/resume.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

#include "strata/base/fields.h"
#include "strata/device/execution.h"
#include "support/catch.h"
#include "support/scratch_folder.h"
#include "support/thread_ranks.h"
#include "train/save_ways.h"
#include "train/saved_run.h"

namespace strata::test {
namespace {

constexpr std::int64_t kWholeSteps = 4;

/// Returns the end of a run's list of losses or norms.
std::vector<double> since(const std::vector<double>& all, std::int64_t step) {
  return {all.begin() + step, all.end()};
}

/// Checks that a run that went on behind `from` steps ended as `whole` did.
void check_same_end(const SavedRun& resumed, const SavedRun& whole, std::int64_t from) {
  CHECK(resumed.run.losses == since(whole.run.losses, from));
  CHECK(resumed.run.norms == since(whole.run.norms, from));
  CHECK(resumed.run.weights == whole.run.weights);
}

/// Trains all steps and saves behind step `from` on the way, then goes on from there. The final
/// checkpoints are compared as well, with their manifests if nothing but the placement is the same.
void check_resumes(const RunConfig& config, const RunConfig& later, int ranks, std::int64_t from,
                   const SaveSchedule& schedule = {.steps = kWholeSteps},
                   const SessionHooks& hooks = {}) {
  MemoryFiles files(kRunFolder);
  SaveSchedule whole_schedule = schedule;
  whole_schedule.after = {from};
  whole_schedule.at_end = true;
  const SavedRun whole = train_and_save(config, ranks, files, whole_schedule, hooks);
  REQUIRE(whole.reports.size() == 2);
  for (const SaveReport& report : whole.reports) REQUIRE(report.failure == "");
  const auto manifests =
      write_fields(later) == write_fields(config) ? Manifests::kWith : Manifests::kWithout;
  const FolderContents expected = checkpoint_contents(files, schedule.steps, manifests);
  remove_all(files, kCheckpoints / checkpoint_name(schedule.steps));

  SaveSchedule rest = schedule;
  rest.from = from;
  rest.at_end = true;
  const SavedRun resumed = train_and_save(later, ranks, files, rest, hooks);
  check_same_end(resumed, whole, from);
  REQUIRE(resumed.reports.size() == 1);
  CHECK(resumed.reports[0].failure == "");
  CHECK(differences(checkpoint_contents(files, schedule.steps, manifests), expected) == "");
}

void check_resumes_everywhere(const std::vector<Numbers>& all, std::size_t targets) {
  std::size_t turn = 0;
  for (const Numbers& numbers : all) {
    const std::vector<Placement> placements = placements_of(numbers);
    for (std::size_t i = 0; i < placements.size(); ++i) {
      for (std::size_t j = 0; j < targets; ++j) {
        const Placement& later = placements[(i + j * 5) % placements.size()];  // first to itself
        INFO(numbers.to_string() << "; from " << placements[i].to_string() << " to "
                                 << later.to_string());
        const Staged staged = kStaged[turn % std::size(kStaged)];
        check_resumes(
            save_config(numbers, placements[i], staged, execution_of(numbers.ranks, turn)),
            save_config(numbers, later, staged, execution_of(numbers.ranks, turn + j)),
            numbers.ranks, 2);
        ++turn;
      }
    }
  }
}

/// Tokens of few rows, so that a run of some steps takes them several times.
std::string few_tokens(const ScratchFolder& folder, std::int64_t rows, std::int64_t row_tokens,
                       const std::string& name = "train.bin") {
  std::vector<std::uint16_t> tokens(static_cast<std::size_t>(rows * row_tokens + 1));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::uint16_t>(i * i % 61);
  }
  std::string bytes(tokens.size() * sizeof(std::uint16_t), '\0');
  std::memcpy(bytes.data(), tokens.data(), bytes.size());
  return folder.write(name, bytes);
}

}  // namespace

TEST_CASE("a run that goes on ends as one that was not interrupted, wherever its state lives",
          "[long]") {
  check_resumes_everywhere({{.moments = DType::kBF16, .tied = true}}, 2);
  check_resumes_everywhere({{.dtype = DType::kF64, .passes = 3}, {.ranks = 2}}, 1);
}

TEST_CASE("runs of all numbers go on in every placement", "[slow]") {
  std::vector<Numbers> all;
  for (const int ranks : {1, 2, 4}) {
    for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF64}) {
      for (const bool tied : {false, true}) {
        all.push_back({.dtype = dtype, .passes = tied ? 3 : 1, .tied = tied, .ranks = ranks});
      }
    }
    all.push_back({.moments = DType::kBF16, .passes = 3, .ranks = ranks});
    all.push_back({.clip = 1e-3});
  }
  check_resumes_everywhere(all, 3);
}

TEST_CASE("a run with products in e4m3 goes on with the same bits, and also in bf16") {
  RunConfig config = save_config({.dtype = DType::kBF16});
  for (const Products products : {Products::kFp8, Products::kFp8All}) {
    for (const int ranks : {1, 2}) {
      config = save_config({.dtype = DType::kBF16, .ranks = ranks});
      config.run.products = products;
      check_resumes(config, config, ranks, 2);
    }
  }
  // Its checkpoints are those of any run, so what they hold does not depend on what comes next.
  MemoryFiles files(kRunFolder);
  const SavedRun codes =
      train_and_save(config, 1, files, {.after = {2}, .at_end = true, .steps = kWholeSteps});
  RunConfig plain = config;
  plain.run.products = Products::kPlain;
  const SavedRun back = train_and_save(plain, 1, files, {.from = 2, .steps = kWholeSteps});
  REQUIRE(back.run.losses.size() == 2);
  const std::vector<double> in_codes = since(codes.run.losses, 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(back.run.losses[i] != in_codes[i]);
    CHECK(std::abs(back.run.losses[i] / in_codes[i] - 1) < 0.0625);  // what a number is rounded by
  }
}

TEST_CASE("a run whose optimizer has one moment goes on with the same bits, and with a wider one") {
  for (const OptimizerKind kind : {OptimizerKind::kLion, OptimizerKind::kSgd}) {
    Numbers numbers{.dtype = DType::kBF16, .moments = DType::kBF16, .ranks = 2};
    const Placement spread{.resident = 2, .interleave = 0.5};
    const Placement on_host{.timing = UpdateTiming::kSpeculative};
    RunConfig config = save_config(numbers, spread, Staged::kHalf);
    RunConfig later = save_config(numbers, on_host);
    config.optimizer.kind = later.optimizer.kind = kind;
    check_resumes(config, later, 2, 2);

    MemoryFiles files(kRunFolder);
    const SavedRun whole =
        train_and_save(config, 2, files, {.after = {2}, .at_end = true, .steps = kWholeSteps});
    later.optimizer.moment_dtype = DType::kF32;
    const SavedRun wider = train_and_save(later, 2, files, {.from = 2, .steps = kWholeSteps});
    REQUIRE(wider.run.losses.size() == 2);
    CHECK(wider.run.losses[0] ==
          whole.run.losses[2]);  // which is that of the weights that it loaded
  }
}

TEST_CASE("a run of muon goes on with the same bits") {
  for (const int ranks : {1, 3}) {
    for (const Staged staged : kStaged) {
      RunConfig config =
          save_config({.dtype = DType::kBF16, .moments = DType::kBF16, .ranks = ranks}, {}, staged,
                      ranks == 1 ? Execution::kShuffled : Execution::kThreads);
      config.optimizer.kind = OptimizerKind::kMuon;
      check_resumes(config, config, ranks, 2);
    }
  }
}

TEST_CASE("a run on a mixture of sources goes on with the samples that come next") {
  const ScratchFolder folder;
  const int ranks = 2;
  RunConfig config = save_config({.passes = 2, .ranks = ranks});
  config.data.synthetic = false;
  config.data.dtype = TokenFormat::kU16;
  const std::int64_t length = config.data.sequence_length;
  const std::string shard = few_tokens(folder, 5, length, "b.bin");
  config.data.train.list = {
      {.files = {few_tokens(folder, 7, length, "a.bin"), shard}, .weight = 0.7},
      {.files = {few_tokens(folder, 3, length, "c.bin")}, .weight = 0.3}};
  check_resumes(config, config, ranks, 3, {.steps = 6});
}

TEST_CASE("a run goes on in the middle of an epoch, and over the ends of several", "[long]") {
  const ScratchFolder folder;
  for (const int ranks : {1, 2}) {
    for (const std::int64_t passes : {1, 3}) {
      INFO(ranks << " ranks, " << passes << " passes");
      RunConfig config = save_config({.passes = passes, .ranks = ranks});
      config.data.synthetic = false;
      config.data.dtype = TokenFormat::kU16;
      config.data.eos_token = 3;
      config.data.document_mask = true;
      // A step takes 2 rows a pass and rank: epochs end within steps.
      config.data.train = few_tokens(folder, 7, config.data.sequence_length);
      constexpr std::int64_t kManySteps = 9;
      for (const std::int64_t from : {1, 4, 8}) {
        check_resumes(config, config, ranks, from, {.steps = kManySteps});
      }
    }
  }
}

TEST_CASE("a run goes on behind steps that were skipped, or had nothing to learn") {
  const Numbers numbers{.dtype = DType::kF64};
  for (const UpdateTiming timing : {UpdateTiming::kBeforeUse, UpdateTiming::kSpeculative}) {
    const RunConfig config = save_config(numbers, {.timing = timing});
    const SyntheticTokens tokens(1 << 20, config.model.llama.vocab_size, 5);
    const SessionHooks hooks{.fill = [&](std::int64_t step, int pass, const BatchOptions& options,
                                         const PassBuffers& out) {
      ThreadPool pool(1);
      BatchLoader loader(tokens, options, pool);
      const std::int64_t valid = loader.fill_pass(step * loader.samples_per_step(), pass, out);
      if (step != 1) return valid;
      std::ranges::fill(out.targets, kIgnoreTarget);
      return std::int64_t{0};
    }};
    // Steps 2 and 3 compute with a weight that is not a number, and are skipped.
    const auto spoil = [kept = 0.0](Session& session, std::int64_t step) mutable {
      session.synchronize();
      double& weight = session.state().block(BlockId(1)).weight.as<double>()[0];
      if (step == 2) kept = weight;
      if (step == 2 || step == 3) weight = std::numeric_limits<double>::quiet_NaN();
      if (step == 4) weight = kept;
    };
    MemoryFiles files(kRunFolder);
    constexpr std::int64_t kManySteps = 6;
    const SavedRun whole = train_and_save(
        config, 1, files, {.at_end = true, .steps = kManySteps, .before_step = spoil}, hooks);
    REQUIRE(std::isnan(whole.run.losses[3]));
    const FolderContents expected = checkpoint_contents(files, kManySteps);
    const Manifest end = read_manifest(files, kCheckpoints / checkpoint_name(kManySteps));
    CHECK(end.history.updates == 3);
    CHECK(end.finite);
    remove_all(files, kCheckpoints);
    files.make_folder(kCheckpoints);

    for (const std::int64_t from : {2, 3, 4}) {
      INFO(enum_name(kUpdateTimingNames, timing) << ", from step " << from);
      {
        // Stops there, with the weight made right again.
        SessionHooks own = hooks;
        own.checkpoints = CheckpointPlace{.files = &files, .folder = kCheckpoints, .resume = {}};
        const auto self = make_self_ranks();
        Session session(config, *self, own);
        double kept = 0;
        double& weight = session.state().block(BlockId(1)).weight.as<double>()[0];
        for (std::int64_t step = 0; step < from; ++step) {
          if (step == 2) kept = weight;
          if (step >= 2) weight = std::numeric_limits<double>::quiet_NaN();
          session.submit(step, config.optimizer.lr);
          session.synchronize();
        }
        if (from > 2) weight = kept;
        session.checkpoints()->save_now({.whole = true}, from, session.samples_after(from));
        REQUIRE(session.checkpoints()->take_reports().at(0).failure == "");
      }
      const Manifest manifest = read_manifest(files, kCheckpoints / checkpoint_name(from));
      CHECK(manifest.history.updates == 1);
      CHECK(manifest.history.bad_in_a_row == from - 2);
      CHECK(manifest.finite == (from == 2));
      const SavedRun resumed = train_and_save(
          config, 1, files,
          {.at_end = true,
           .from = from,
           .steps = kManySteps,
           .before_step =
               [from, kept = 0.0](Session& session, std::int64_t step) mutable {
                 session.synchronize();
                 double& weight = session.state().block(BlockId(1)).weight.as<double>()[0];
                 if (step == from) kept = weight;
                 if (step == 2 || step == 3) weight = std::numeric_limits<double>::quiet_NaN();
                 if (step == 4) weight = kept;
               }},
          hooks);
      CHECK(differences(checkpoint_contents(files, kManySteps), expected) == "");
      CHECK(resumed.run.weights == whole.run.weights);
      remove_all(files, kCheckpoints);
      files.make_folder(kCheckpoints);
    }
  }
}

TEST_CASE("steps that were not finite before a checkpoint count towards the end of the run") {
  const RunConfig config = save_config({.dtype = DType::kF64});  // three in a row end it
  MemoryFiles files(kRunFolder);
  const auto hooks = [&](std::optional<std::int64_t> from) {
    SessionHooks own;
    own.checkpoints = CheckpointPlace{.files = &files, .folder = kCheckpoints, .resume = {}};
    if (from) {
      const auto folder = kCheckpoints / checkpoint_name(*from);
      own.checkpoints->resume = FoundCheckpoint{folder, read_manifest(files, folder)};
    }
    return own;
  };
  const auto step_wrong = [&](Session& session, std::int64_t step) {
    session.state().block(BlockId(1)).weight.as<double>()[0] =
        std::numeric_limits<double>::quiet_NaN();
    session.submit(step, config.optimizer.lr);
    session.synchronize();
  };
  const auto self = make_self_ranks();
  {
    Session session(config, *self, hooks({}));
    session.submit(0, config.optimizer.lr);
    session.synchronize();
    step_wrong(session, 1);
    step_wrong(session, 2);
    session.checkpoints()->save_now({.whole = true}, 3, session.samples_after(3));
  }
  Session session(config, *self, hooks(3));
  CHECK_THROWS_WITH(step_wrong(session, 3), ContainsSubstring("3 steps in a row"));
}

TEST_CASE("a run goes on from each of many checkpoints that were written as it trained") {
  for (const Numbers& numbers : {Numbers{.moments = DType::kBF16}, Numbers{.ranks = 2}}) {
    const std::vector<Placement> placements = placements_of(numbers);
    for (std::size_t i = numbers.ranks > 1 ? 1 : 0; i < placements.size(); i += 3) {
      const Placement& placement = placements[i];
      INFO(numbers.to_string() << "; " << placement.to_string());
      MemoryFiles memory(kRunFolder);
      // So that saves last over steps; the checks hold for whichever were made.
      HookedFiles files(memory,
                        [] { std::this_thread::sleep_for(std::chrono::microseconds(100)); });
      const RunConfig config = save_config(numbers, placement);
      const SavedRun whole = train_and_save(
          config, numbers.ranks, files, {.after = {1, 2, 3}, .at_end = true, .steps = kWholeSteps});
      const FolderContents expected = checkpoint_contents(memory, kWholeSteps);
      for (const std::int64_t from : list_checkpoints(memory, kCheckpoints)) {
        if (from == kWholeSteps) continue;
        remove_all(memory, kCheckpoints / checkpoint_name(kWholeSteps));
        const SavedRun resumed = train_and_save(
            config, numbers.ranks, files,
            {.after = {from + 2}, .at_end = true, .from = from, .steps = kWholeSteps});
        check_same_end(resumed, whole, from);
        CHECK(differences(checkpoint_contents(memory, kWholeSteps), expected) == "");
      }
    }
  }
}

TEST_CASE("a run goes on with other batches where the data of the checkpoint end") {
  const Numbers numbers;
  const RunConfig config = save_config(numbers);  // 2 rows a step
  RunConfig larger = config;
  larger.schedule.sub_batches = 3;
  larger.schedule.passes = 2;
  MemoryFiles files(kRunFolder);
  REQUIRE(train_and_save(config, 1, files, {.at_end = true, .steps = 2}).reports[0].failure == "");
  CHECK(read_manifest(files, kCheckpoints / checkpoint_name(2)).samples == 4);
  const SavedRun resumed =
      train_and_save(larger, 1, files, {.at_end = true, .from = 2, .steps = kWholeSteps});
  CHECK(read_manifest(files, kCheckpoints / checkpoint_name(kWholeSteps)).samples == 4 + 2 * 6);
  // The samples that follow, counted by hand.
  const SyntheticTokens tokens(std::int64_t{1} << 40, config.model.llama.vocab_size, 1);
  const SessionHooks hooks{.fill = [&](std::int64_t step, int pass, const BatchOptions& options,
                                       const PassBuffers& out) {
    ThreadPool pool(1);
    BatchLoader loader(tokens, options, pool);
    return loader.fill_pass(4 + (step - 2) * 6, pass, out);
  }};
  const SavedRun by_hand =
      train_and_save(larger, 1, files, {.from = 2, .steps = kWholeSteps}, hooks);
  CHECK(by_hand.run == resumed.run);
}

}  // namespace strata::test
