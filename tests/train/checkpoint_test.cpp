// A checkpoint that is taken while training goes on must hold the state of a run that was stopped
// there, byte for byte, whatever the blocks' homes and the moments of their updates; and the run
// must not notice.

#include "strata/train/checkpointer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "support/catch.h"
#include "support/json.h"
#include "support/thread_ranks.h"
#include "train/save_ways.h"
#include "train/saved_run.h"

namespace strata::test {
namespace {

constexpr std::int64_t kSteps = 4;

/// What a run leaves that is stopped after each of its steps: tensor files by step. It is trained
/// as simply as possible, and saves nothing before it is stopped.
struct Stopped {
  std::map<std::int64_t, FolderContents> tensors;
  RunResult run;  ///< of all steps
};

Stopped run_and_stop(const Numbers& numbers, const std::vector<std::int64_t>& stops) {
  Stopped result;
  for (const std::int64_t stop : stops) {
    MemoryFiles files(kRunFolder);
    const SavedRun run =
        train_and_save(save_config(numbers), numbers.ranks, files, {.at_end = true, .steps = stop});
    REQUIRE(run.reports.size() == 1);
    REQUIRE(run.reports[0].failure == "");
    result.tensors[stop] = checkpoint_contents(files, stop, Manifests::kWithout);
    if (stop == kSteps) result.run = run.run;
  }
  return result;
}

/// Saves after step 2 of 4 while training goes on, and after the last.
void check_way(const Numbers& numbers, const Placement& placement, Staged staged,
               Execution execution, const Stopped& stopped) {
  INFO(numbers.to_string() << "; " << placement.to_string() << "; " << to_string(staged) << "; "
                           << enum_name(kExecutionNames, execution));
  MemoryFiles files(kRunFolder);
  const RunConfig config = save_config(numbers, placement, staged, execution);
  const SavedRun run =
      train_and_save(config, numbers.ranks, files, {.after = {2}, .at_end = true, .steps = kSteps});
  REQUIRE(run.reports.size() == 2);
  for (const SaveReport& report : run.reports) CHECK(report.failure + report.warning == "");
  CHECK(list_checkpoints(files, kCheckpoints) == std::vector<std::int64_t>{2, 4});
  CHECK(files.list(kCheckpoints).size() == 2);
  CHECK(run.run == stopped.run);
  for (const std::int64_t step : {std::int64_t{2}, kSteps}) {
    INFO("checkpoint of step " << step);
    CHECK(differences(checkpoint_contents(files, step, Manifests::kWithout),
                      stopped.tensors.at(step)) == "");
  }
  if (numbers.clip < 1 && placement.timing == UpdateTiming::kSpeculative) {
    CHECK(std::ranges::count(run.missed, true) == kSteps);
  }
}

/// Goes through every placement with all numbers, and each of them with `stagings` stagings.
void check_ways(const std::vector<Numbers>& all, std::size_t stagings) {
  std::size_t turn = 0;
  for (const Numbers& numbers : all) {
    const Stopped stopped = run_and_stop(numbers, {2, kSteps});
    for (const Placement& placement : placements_of(numbers)) {
      for (std::size_t i = 0; i < stagings; ++i) {
        const Staged staged = kStaged[(turn + i) % std::size(kStaged)];
        check_way(numbers, placement, staged, execution_of(numbers.ranks, turn / 2 + i), stopped);
      }
      ++turn;
    }
  }
}

std::vector<Numbers> all_numbers() {
  std::vector<Numbers> all;
  for (const int ranks : {1, 2, 4}) {
    for (const auto& [dtype, moments] :
         {std::pair(DType::kBF16, DType::kF32), std::pair(DType::kBF16, DType::kBF16),
          std::pair(DType::kF32, DType::kF32), std::pair(DType::kF32, DType::kBF16),
          std::pair(DType::kBF16, DType::kU8), std::pair(DType::kF64, DType::kF32)}) {
      for (const std::int64_t passes : {1, 3}) {
        for (const bool tied : {false, true}) {
          all.push_back(
              {.dtype = dtype, .moments = moments, .passes = passes, .tied = tied, .ranks = ranks});
        }
      }
    }
    all.push_back({.tied = true, .ranks = ranks, .clip = 1e-3});
  }
  return all;
}

}  // namespace

TEST_CASE("a checkpoint taken while training is that of a run stopped there") {
  check_ways({{.dtype = DType::kBF16, .moments = DType::kBF16, .tied = true},
              {.dtype = DType::kBF16, .moments = DType::kU8, .ranks = 2},
              {.dtype = DType::kF64, .passes = 3},
              {.clip = 1e-3}},
             1);
}

TEST_CASE("a save that waits for a validation is committed with what that found") {
  const Numbers numbers{.ranks = GENERATE(1, 2), .clip = 1e9};
  const Stopped stopped = run_and_stop(numbers, {2, kSteps});
  std::size_t turn = 0;
  for (const Placement& placement : placements_of(numbers)) {
    const Staged staged = kStaged[turn % std::size(kStaged)];
    const Execution execution = execution_of(numbers.ranks, turn++);
    INFO(placement.to_string() << "; " << to_string(staged) << "; "
                               << enum_name(kExecutionNames, execution));
    MemoryFiles files(kRunFolder);
    Validations found;
    found.add(2, 1.5);
    const auto validate = [&](Session& session, std::int64_t step) {
      if (step == 1) session.checkpoints()->await_validation(2);
      if (step != 2) return;
      session.synchronize();
      if (session.groups().world().rank() == 0)
        CHECK(list_checkpoints(files, kCheckpoints).empty());
      session.groups().world().barrier(Channel::kSubmit);
      session.checkpoints()->validated(found);
    };
    const SavedRun run =
        train_and_save(save_config(numbers, placement, staged, execution), numbers.ranks, files,
                       {.after = {2}, .at_end = true, .steps = kSteps, .before_step = validate});
    REQUIRE(run.reports.size() == 2);
    for (const SaveReport& report : run.reports) CHECK(report.failure + report.warning == "");
    CHECK(run.run == stopped.run);
    for (const std::int64_t step : {std::int64_t{2}, kSteps}) {
      CHECK(differences(checkpoint_contents(files, step, Manifests::kWithout),
                        stopped.tensors.at(step)) == "");
      CHECK(read_manifest(files, kCheckpoints / checkpoint_name(step)).validations == found);
    }
  }
}

namespace {

/// Returns those of the files that a model is.
FolderContents model_of(FolderContents files) {
  std::erase_if(files, [](const auto& file) { return !file.first.starts_with("model/"); });
  return files;
}

FolderContents weights_contents(const Files& files, std::int64_t step) {
  FolderContents contents = contents_of(files, kRunFolder / kWeightsName / checkpoint_name(step));
  CHECK(contents.erase(std::string(kManifestName)) == 1);
  return contents;
}

/// Saves weights, alone or with checkpoints, after steps 1 and 2 of 4 and after the last.
void check_weights(const Numbers& numbers, const Placement& placement, Staged staged,
                   const SaveKinds& kinds, const Stopped& stopped) {
  INFO(numbers.to_string() << "; " << placement.to_string() << "; " << to_string(staged) << "; "
                           << (kinds.whole ? "with checkpoints" : "alone"));
  MemoryFiles files(kRunFolder);
  RunConfig config = save_config(numbers, placement, staged);
  config.checkpoint.keep = 1;
  const SavedRun run =
      train_and_save(config, numbers.ranks, files,
                     {.after = {1, 2}, .kinds = kinds, .at_end = true, .steps = kSteps});
  REQUIRE(run.reports.size() >= (kinds.whole ? 4 : 2));  // the second may have had to wait
  for (const SaveReport& report : run.reports) CHECK(report.failure + report.warning == "");
  CHECK(run.run == stopped.run);
  std::set<std::int64_t> saved;
  for (const SaveReport& report : run.reports) {
    if (report.weights_alone) saved.insert(report.step);
  }
  const std::vector<std::int64_t> steps = list_checkpoints(files, kRunFolder / kWeightsName);
  CHECK(std::ranges::equal(steps, saved));
  CHECK(saved.contains(1));
  CHECK(saved.contains(kSteps));
  for (const std::int64_t step : steps) {
    INFO("weights of step " << step);
    CHECK(differences(weights_contents(files, step), model_of(stopped.tensors.at(step))) == "");
  }
  const std::vector<std::int64_t> checkpoints = list_checkpoints(files, kCheckpoints);
  CHECK(checkpoints == (kinds.whole ? std::vector{kSteps} : std::vector<std::int64_t>{}));
  if (!kinds.whole) return;
  CHECK(differences(checkpoint_contents(files, kSteps, Manifests::kWithout),
                    stopped.tensors.at(kSteps)) == "");
}

}  // namespace

TEST_CASE("weights saved alone while training are those of a run stopped there") {
  std::size_t turn = 0;
  for (const Numbers& numbers : {Numbers{.moments = DType::kBF16, .tied = true},
                                 Numbers{.dtype = DType::kF32, .ranks = 2}}) {
    const Stopped stopped = run_and_stop(numbers, {1, 2, 3, kSteps});
    for (const Placement& placement : placements_of(numbers)) {
      const SaveKinds kinds{.whole = turn % 3 == 2, .weights = true};
      check_weights(numbers, placement, kStaged[turn % std::size(kStaged)], kinds, stopped);
      ++turn;
    }
  }
}

TEST_CASE("ranks take a checkpoint together while they train") {
  check_ways({{.ranks = 2}}, 1);
  const Numbers four{.moments = DType::kBF16, .passes = 3, .tied = true, .ranks = 4};
  check_way(four, {.timing = UpdateTiming::kOnArrival, .deferred = 3, .interleave = 1},
            Staged::kHalf, Execution::kThreads, run_and_stop(four, {2, kSteps}));
}

namespace {

/// The tensors of a safetensors file, read by hand: dtype and bytes by name.
struct RawTensor {
  std::string dtype;
  std::string bytes;
};
std::map<std::string, RawTensor> tensors_of(const std::string& file) {
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  const std::string body = file.substr(sizeof(length) + length);
  std::map<std::string, RawTensor> all;
  const auto header = parse_json<nlohmann::json>(file.substr(sizeof(length), length));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const std::size_t begin = entry["data_offsets"][0];
    const std::size_t end = entry["data_offsets"][1];
    all[name] = {entry["dtype"], body.substr(begin, end - begin)};
  }
  return all;
}

double as_f64(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return static_cast<double>(value);
}

/// Reads the values of a tensor of bf16, f32 or f64.
std::vector<double> values_of(const RawTensor& tensor) {
  std::vector<double> values;
  const auto read = [&]<class Bits>(Bits) {
    for (std::size_t at = 0; at < tensor.bytes.size(); at += sizeof(Bits)) {
      Bits bits{};
      std::memcpy(&bits, tensor.bytes.data() + at, sizeof(Bits));
      if constexpr (sizeof(Bits) == 8) {
        double value = 0;
        std::memcpy(&value, &bits, sizeof(value));
        values.push_back(value);
      } else {
        values.push_back(as_f64(std::uint32_t{bits} << (8 * (4 - sizeof(Bits)))));
      }
    }
  };
  if (tensor.dtype == "BF16") read(std::uint16_t{});
  if (tensor.dtype == "F32") read(std::uint32_t{});
  if (tensor.dtype == "F64") read(std::uint64_t{});
  return values;
}

/// The high half of a split master: the nearest bf16 of an f32, ties away from zero.
double high_half(double value) {
  const auto f = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &f, sizeof(bits));
  return as_f64((bits + 0x8000) & 0xffff0000);
}

}  // namespace

TEST_CASE("a checkpoint's files hold the weights and moments of the run") {
  for (const Numbers& numbers :
       {Numbers{.dtype = DType::kBF16, .moments = DType::kBF16, .tied = true},
        Numbers{.dtype = DType::kBF16, .ranks = 2}, Numbers{.dtype = DType::kF32, .ranks = 4},
        Numbers{.dtype = DType::kF64}}) {
    INFO(numbers.to_string());
    MemoryFiles files(kRunFolder);
    std::map<std::string, std::vector<double>> weights;
    WholeState state;
    const SessionHooks hooks{
        .checkpoints = CheckpointPlace{.files = &files, .folder = kCheckpoints, .resume = {}}};
    std::mutex mutex;
    run_ranks(numbers.ranks, [&](Ranks& group) {
      Session session(save_config(numbers, {.resident = 2}), group, hooks);
      for (std::int64_t step = 0; step < 2; ++step) session.submit(step, 1e-2);
      session.synchronize();
      auto own_weights = gather_weights(session.state(), group);
      WholeState own = gather_state(session, group);
      session.checkpoints()->save_now({.whole = true}, 2, session.samples_after(2));
      const std::lock_guard lock(mutex);
      weights = std::move(own_weights);
      state = std::move(own);
    });
    std::set<std::string> found;
    for (const auto& [path, file] : checkpoint_contents(files, 2)) {
      if (!path.ends_with(".safetensors")) continue;
      INFO(path);
      if (path.starts_with("model/")) {
        for (const auto& [name, tensor] : tensors_of(file)) {
          std::vector<double> expected = weights.at(name);
          if (numbers.dtype == DType::kBF16)
            std::ranges::transform(expected, expected.begin(), high_half);
          CHECK((values_of(tensor) == expected));
          found.insert(name);
        }
        continue;
      }
      const std::string block = std::filesystem::path(path).stem().string();
      const auto tensors = tensors_of(file);
      for (const char* name : {"m", "v"}) {
        const std::string key = block + " " + name;
        std::vector<double> expected = state.tensors.at(key);
        const std::vector<double> values = values_of(tensors.at(name));
        CHECK(values.size() >= expected.size());  // flat tensors are filled up to a sector's end
        expected.resize(values.size());
        CHECK((values == expected));
        found.insert(key);
      }
      CHECK(tensors.contains("low") == (numbers.dtype == DType::kBF16));
    }
    for (const auto& [name, values] : weights) CHECK(found.contains(name));
    for (const auto& [name, values] : state.tensors) {
      CHECK((name.ends_with(" master") || found.contains(name)));
    }
  }
}

TEST_CASE("training runs past a save that is staged while its files wait") {
  const Numbers numbers;
  const Stopped stopped = run_and_stop(numbers, {1, kSteps});
  for (const Placement& placement : placements_of(numbers)) {
    INFO(placement.to_string());
    MemoryFiles memory(kRunFolder);
    std::mutex mutex;
    std::condition_variable opened;
    bool open = true;  // for the test of the disk at the start
    HookedFiles files(memory, [&] {
      std::unique_lock lock(mutex);
      opened.wait(lock, [&] { return open; });
    });
    const auto self = make_self_ranks();
    Session session(
        save_config(numbers, placement, Staged::kAll), *self,
        {.checkpoints = CheckpointPlace{.files = &files, .folder = kCheckpoints, .resume = {}}});
    {
      const std::lock_guard lock(mutex);
      open = false;
    }
    constexpr SaveKinds kWhole{.whole = true};
    CHECK(session.submit(0, session.config().optimizer.lr, kWhole) == kWhole);
    for (std::int64_t step = 1; step < kSteps; ++step) {  // one at a time
      CHECK(session.submit(step, session.config().optimizer.lr, kWhole) == SaveKinds{});
    }
    session.synchronize();  // although nothing is written
    CHECK(session.take_finished().size() == kSteps);
    CHECK(session.checkpoints()->take_reports().empty());
    CHECK(memory.kind(kCheckpoints / checkpoint_name(1)) == Files::Kind::kNothing);
    {
      const std::lock_guard lock(mutex);
      open = true;
      opened.notify_all();
    }
    session.checkpoints()->wait();
    const std::vector<SaveReport> reports = session.checkpoints()->take_reports();
    REQUIRE(reports.size() == 1);
    CHECK(reports[0].failure == "");
    CHECK(session.checkpoints()->take_reports().empty());
    CHECK(differences(checkpoint_contents(memory, 1, Manifests::kWithout), stopped.tensors.at(1)) ==
          "");
    CHECK(gather_weights(session.state(), *self) == stopped.run.weights);
  }
}

namespace {

/// Saves after every step, into files that take their time, so that saves last over steps. Which of
/// them fall due while another is written depends on that time, and what each holds does not.
void save_every_step(const Numbers& numbers, const Placement& placement, Staged staged,
                     Execution execution, const Stopped& stopped) {
  INFO(numbers.to_string() << "; " << placement.to_string() << "; " << to_string(staged) << "; "
                           << enum_name(kExecutionNames, execution));
  MemoryFiles memory(kRunFolder);
  HookedFiles files(memory, [] { std::this_thread::sleep_for(std::chrono::microseconds(200)); });
  const SavedRun run =
      train_and_save(save_config(numbers, placement, staged, execution), numbers.ranks, files,
                     {.after = {1, 2, 3, 4}, .steps = kSteps});
  CHECK(run.run == stopped.run);
  const std::vector<std::int64_t> steps = list_checkpoints(memory, kCheckpoints);
  REQUIRE(steps.size() == run.reports.size());
  CHECK(steps.front() == 1);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    CHECK(run.reports[i].step == steps[i]);
    CHECK(run.reports[i].failure == "");
    CHECK(differences(checkpoint_contents(memory, steps[i], Manifests::kWithout),
                      stopped.tensors.at(steps[i])) == "");
  }
}

}  // namespace

TEST_CASE("checkpoints that follow each other on slow files are each that of their step") {
  std::size_t turn = 0;
  for (const Numbers& numbers : {Numbers{.moments = DType::kBF16}, Numbers{.ranks = 2}}) {
    const Stopped stopped = run_and_stop(numbers, {1, 2, 3, kSteps});
    for (const Placement& placement : placements_of(numbers)) {
      save_every_step(numbers, placement, kStaged[turn % std::size(kStaged)],
                      execution_of(numbers.ranks, turn), stopped);
      ++turn;
    }
  }
}

TEST_CASE("a save that falls due while another is written begins when that has ended") {
  const Numbers numbers;
  MemoryFiles memory(kRunFolder);
  std::atomic<bool> open = true;  // for the test of the disk at the start
  HookedFiles files(memory, [&] {
    while (!open) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  const SavedRun run = train_and_save(
      save_config(numbers, {}, Staged::kAll), 1, files,
      {.after = {1, 2}, .steps = kSteps, .before_step = [&](Session& session, std::int64_t step) {
         if (step == 0) open = false;
         if (step != 2) return;
         open = true;  // the save of step 1, which the one of step 2 waits for
         session.checkpoints()->wait();
       }});
  CHECK(run.waits == 2);  // steps 2 and 3, behind which the report is taken
  REQUIRE(run.reports.size() == 2);
  CHECK(list_checkpoints(memory, kCheckpoints) == std::vector<std::int64_t>{1, 4});
}

TEST_CASE("a validation right behind the mark changes nothing of the checkpoint") {
  const Numbers numbers;
  const Stopped stopped = run_and_stop(numbers, {1, kSteps});
  for (const Placement& placement : placements_of(numbers)) {
    INFO(placement.to_string());
    MemoryFiles files(kRunFolder);
    const RunConfig config = save_config(numbers, placement);
    const SyntheticTokens tokens(std::int64_t{1} << 40, config.model.llama.vocab_size,
                                 1);  // those of the session
    SessionHooks hooks;
    hooks.fill = [&](std::int64_t step, int pass, const BatchOptions& options,
                     const PassBuffers& out) {
      ThreadPool pool(1);
      BatchLoader loader(tokens, options, pool);
      return loader.fill_pass(step * loader.samples_per_step(), pass, out);
    };
    const SavedRun run = train_and_save(save_config(numbers, placement), 1, files,
                                        {.after = {1},
                                         .at_end = true,
                                         .steps = kSteps,
                                         .before_step =
                                             [](Session& session, std::int64_t step) {
                                               if (step == 1) static_cast<void>(session.evaluate());
                                             }},
                                        hooks);
    CHECK(run.run == stopped.run);
    for (const std::int64_t step : {std::int64_t{1}, kSteps}) {
      CHECK(differences(checkpoint_contents(files, step, Manifests::kWithout),
                        stopped.tensors.at(step)) == "");
    }
  }
}

TEST_CASE("what saves take is planned to the byte") {
  for (const Numbers& numbers : {Numbers{.moments = DType::kBF16}, Numbers{.dtype = DType::kF64}}) {
    for (const Placement& placement : placements_of(numbers)) {
      std::size_t nothing_staged = 0;
      for (const Staged staged : {Staged::kNone, Staged::kHalf, Staged::kAll}) {
        INFO(numbers.to_string() << "; " << placement.to_string() << "; " << to_string(staged));
        MemoryFiles files(kRunFolder);
        const auto self = make_self_ranks();
        const Session session(save_config(numbers, placement, staged), *self,
                              {.checkpoints = CheckpointPlace{
                                   .files = &files, .folder = kCheckpoints, .resume = {}}});
        std::size_t host = 0;
        for (const Arena* arena : session.arenas()) {
          CHECK(arena->used() == session.setup().plan.total(arena->space()));
          if (arena->space() != Space::kDevice) host += arena->used();
        }
        if (staged == Staged::kNone) nothing_staged = host;
        // What is on the device is staged first; without that it passes through one block.
        CHECK((host > nothing_staged) == (staged != Staged::kNone));
      }
    }
  }
}

TEST_CASE("checkpoints of all numbers and placements are those of stopped runs", "[slow]") {
  check_ways(all_numbers(), 1);
}

TEST_CASE("checkpoints are those of stopped runs, whatever is staged", "[slow]") {
  check_ways(all_numbers(), std::size(kStaged));
}

}  // namespace strata::test
