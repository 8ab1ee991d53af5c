// Tests what a session does beside training: how it ends, what it counts, and its validations,
// against losses of single batches and runs without validations.

#include "strata/train/session.h"
#include "strata/launch/rank_agreement.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <future>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "predict/paper_machines.h"
#include "support/catch.h"
#include "support/limited_child.h"
#include "support/scratch_folder.h"
#include "support/session_run.h"
#include "support/thread_ranks.h"

namespace strata::test {
namespace {

/// Counts what was submitted and what ran.
class Counter final : public TraceSink {
 public:
  void submitted(TraceRecord record) override { submitted_ += record.by_submitter ? 0 : 1; }
  void ran(Lane, std::uint64_t, double, double) override { ++ran_; }
  void arena(std::string_view, Space, ByteRange) override {}
  [[nodiscard]] bool active() const override { return true; }
  [[nodiscard]] int submitted_count() const { return submitted_; }
  [[nodiscard]] int ran_count() const { return ran_; }

 private:
  int submitted_ = 0;
  std::atomic<int> ran_ = 0;
};

/// Says when it goes: declared after a session, it goes before that.
class EndNotice {
 public:
  EndNotice() = default;
  ~EndNotice() { ended_.set_value(); }
  EndNotice(const EndNotice&) = delete;
  EndNotice& operator=(const EndNotice&) = delete;
  [[nodiscard]] std::shared_future<void> ended() { return end_; }

 private:
  std::promise<void> ended_;
  std::shared_future<void> end_ = ended_.get_future().share();
};

/// Submits a step behind a task that runs only after the session's end has begun, which `end` tells
/// of.
void submit_behind(Session& session, const std::function<void()>& first_task, EndNotice& end,
                   std::jthread& releaser) {
  std::promise<void> release;
  session.device()
      .stream(Lane::kHost)
      .host_task("held", {}, {}, [first_task, released = release.get_future().share()] {
        released.wait();
        first_task();
      });
  session.submit(0, 1e-2);
  releaser = std::jthread([promise = std::move(release), ended = end.ended()]() mutable {
    ended.wait();
    // A session that does not wait is gone meanwhile; one that does waits for any time.
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    promise.set_value();
  });
}

constexpr std::int64_t kRowTokens = 7;  ///< of tiny_config
constexpr std::int64_t kBatchRows = 6;
constexpr std::uint16_t kEnd = 3;  ///< id that ends a document

RunConfig config_with(const ScratchFolder& folder, const std::vector<std::uint16_t>& validation) {
  RunConfig config = tiny_config();
  std::vector<std::uint16_t> train(600);
  for (std::size_t i = 0; i < train.size(); ++i) {
    train[i] = static_cast<std::uint16_t>(i * i % 61);
  }
  config.data.synthetic = false;
  config.data.train = folder.write("train.bin", bytes_of(train));
  config.data.validation = folder.write("validation.bin", bytes_of(validation));
  config.data.dtype = TokenFormat::kU16;
  config.data.eos_token = kEnd;
  config.data.document_mask = true;
  return config;
}

/// Tokens of this many rows, with ever more documents.
std::vector<std::uint16_t> validation_tokens(std::int64_t rows) {
  std::vector<std::uint16_t> tokens(static_cast<std::size_t>(rows * kRowTokens + 1));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::uint16_t>(4 + i * 13 % 50);
    if (i > 45 && i % 3 == 0) tokens[i] = kEnd;
  }
  return tokens;
}

double evaluate(const RunConfig& config) {
  const auto self = make_self_ranks();
  Session session(config, *self);
  return session.evaluate();
}

}  // namespace

TEST_CASE("a session that goes while a step is in flight ends it first") {
  for (const Execution execution : {Execution::kThreads, Execution::kShuffled}) {
    RunConfig config = tiny_config();
    config.debug.execution = execution;
    const auto self = make_self_ranks();
    Counter counter;
    std::jthread releaser;
    {
      Session session(config, *self, {.trace = &counter});
      EndNotice end;
      submit_behind(session, [] {}, end, releaser);
      CHECK(counter.ran_count() < counter.submitted_count());
    }
    CHECK(counter.submitted_count() > 100);
    CHECK(counter.ran_count() == counter.submitted_count());
  }
}

TEST_CASE("ranks that fail while they wait for each other in different collectives all end") {
  std::atomic<int> went = 0;
  const auto fail = [&](Ranks& ranks) {
    const RunConfig config = tiny_config();
    Session session(config, ranks);
    session.submit(0, config.optimizer.lr);
    const bool first = ranks.rank() == 0;
    const Channel channel = first ? Channel::kHost : Channel::kSave;
    session.device()
        .stream(first ? Lane::kHost : Lane::kSave)
        .host_task("wait_for_all", {}, {}, [&ranks, channel] { ranks.barrier(channel); });
    ++went;
    throw NumericalError("made to fail");
  };
  CHECK_THROWS_AS(run_ranks(2, fail), Error);
  CHECK(went == 2);
}

TEST_CASE("a session that an error takes down submits nothing more") {
  RunConfig config = tiny_config();
  config.optimizer.deferred_units = 2;  // wait for a load
  const auto self = make_self_ranks();
  Counter counter;
  int submitted = 0;
  const auto fail = [&] {
    Session session(config, *self, {.trace = &counter});
    session.submit(0, config.optimizer.lr);
    submitted = counter.submitted_count();
    throw NumericalError("made to fail");
  };
  CHECK_THROWS_AS(fail(), NumericalError);
  CHECK(counter.submitted_count() == submitted);
}

TEST_CASE("the bytes of steps over the link add up to those of the session") {
  const auto self = make_self_ranks();
  Session session(tiny_config(), *self);
  for (int step = 0; step < 3; ++step) session.submit(step, 1e-2);
  session.synchronize();
  const std::vector<FinishedStep> steps = session.take_finished();
  REQUIRE(steps.size() == 3);
  LinkBytes left = session.link_bytes();
  CHECK(left.weights_in > 0);
  CHECK(left.out > 0);
  for (const FinishedStep& step : steps) left = left - step.link;
  CHECK(left.weights_in == 0);
  CHECK(left.activations_in == 0);
  CHECK(left.out == 0);
  CHECK(steps[1].link.weights_in == steps[2].link.weights_in);
  CHECK(steps[1].host_busy_s > 0);
  CHECK(session.startup().ended_s >= session.startup().begun_s);
}

TEST_CASE("several ranks are refused an execution in which they would wait for each other") {
  RunConfig config = tiny_config();
  config.debug.execution = Execution::kShuffled;
  std::vector<std::string> errors(2);
  run_ranks(2, [&](Ranks& ranks) {
    try {
      const Session session(config, ranks);
    } catch (const AgreedError& e) {
      CHECK(e.exit_code() == 2);
      errors[static_cast<std::size_t>(ranks.rank())] = e.what();
    }
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, ContainsSubstring("debug.execution") && ContainsSubstring("one rank"));
  }
}

TEST_CASE("a session whose threads cannot all start ends, whichever of them is refused") {
  for (int threads = 0; threads <= 6; ++threads) {  // a worker and six lanes are wanted
    INFO(threads << " threads");
    const Ended ended = with_few_threads(
        [] {
          const auto self = make_self_ranks();
          const Session session(tiny_config(), *self);
        },
        threads);
    if (ended.skipped) return;
    CHECK(ended.exit_code == 3);
    for (const char* part : {"cannot start the thread", "ulimit -u", "run.threads"}) {
      CHECK_THAT(ended.text, ContainsSubstring(part));
    }
  }
}

TEST_CASE("a session whose work failed goes without a word of its own") {
  const auto self = make_self_ranks();
  std::atomic<bool> thrown = false;
  std::jthread releaser;
  {
    Session session(tiny_config(), *self);
    EndNotice end;
    submit_behind(
        session,
        [&thrown] {
          thrown = true;
          throw std::runtime_error("a task that fails");
        },
        end, releaser);
  }
  CHECK(thrown);
  CHECK(run_session(tiny_config()).losses.size() == 3);
}

TEST_CASE("a validation of several batches is the mean over all valid targets") {
  constexpr std::int64_t kRows = 2 * kBatchRows + 4;  // the last batch is not full
  const std::vector<std::uint16_t> tokens = validation_tokens(kRows);
  const ScratchFolder folder;
  std::vector<double> sums;
  std::vector<double> counts;
  for (std::int64_t first = 0; first < kRows; first += kBatchRows) {
    const std::int64_t rows = std::min(kBatchRows, kRows - first);
    const auto begin = tokens.begin() + first * kRowTokens;
    const auto end = begin + rows * kRowTokens;
    const auto valid = static_cast<double>(rows * kRowTokens - std::count(begin, end, kEnd));
    counts.push_back(valid);
    sums.push_back(valid * evaluate(config_with(folder, {begin, end + 1})));
  }
  REQUIRE(counts[0] != counts[1]);
  const auto mean_of = [&](std::ptrdiff_t batches) {
    return std::accumulate(sums.begin(), sums.begin() + batches, 0.0) /
           std::accumulate(counts.begin(), counts.begin() + batches, 0.0);
  };
  const RunConfig whole = config_with(folder, tokens);
  CHECK(std::abs(evaluate(whole) - mean_of(3)) < 1e-12 * mean_of(3));
  RunConfig limited = whole;
  limited.run.eval_batches = 2;
  CHECK(std::abs(evaluate(limited) - mean_of(2)) < 1e-12 * mean_of(2));
  CHECK(std::abs(mean_of(2) - mean_of(3)) > 1e-6);
}

TEST_CASE("a validation between traced steps has no race and changes no step") {
  const ScratchFolder folder;
  const RunConfig plain = config_with(folder, validation_tokens(3 * kBatchRows));
  RunConfig spilling = plain;
  spilling.schedule.activations = KeepLevel::kRecompute;
  spilling.schedule.spill = KeepLevel::kFull;
  spilling.schedule.spill_slots = 2;
  RunConfig int8 = spilling;
  int8.schedule.spill_dtype = BoundaryForm::kInt8;
  for (const RunConfig& config : {plain, spilling, int8}) {
    const RunResult undisturbed = run_session(config);
    const auto self = make_self_ranks();
    Recorder recorder;
    Session session(config, *self, {.trace = &recorder});
    recorder.start();
    for (std::int64_t step = 0; step < config.run.steps; ++step) {
      session.submit(step, config.optimizer.lr);
      CHECK(session.evaluate() > 0);
    }
    session.synchronize();
    recorder.stop();
    CHECK(!recorder.find("copy", {.phase = "evaluate"}).empty());
    CHECK(recorder.races(1).empty());
    std::vector<double> losses;
    for (const FinishedStep& step : session.take_finished())
      losses.push_back(step.outcome.loss.value());
    CHECK(losses == undisturbed.losses);
    CHECK(gather_weights(session.state(), *self) == undisturbed.weights);
  }
}

TEST_CASE("a validation spills nothing that only backward would read") {
  const ScratchFolder folder;
  RunConfig config = config_with(folder, validation_tokens(kBatchRows));
  const double exact = evaluate(config);
  config.schedule.activations = KeepLevel::kRecompute;
  config.schedule.spill = KeepLevel::kFull;
  config.schedule.spill_dtype = BoundaryForm::kInt8;
  const auto self = make_self_ranks();
  Session session(config, *self);
  CHECK(session.evaluate() == exact);
  CHECK(session.kept().spilled_bytes() == 0);
  CHECK(session.activations().spilled_bytes() == 0);
  session.submit(0, 0);
  session.synchronize();
  CHECK(session.kept().spilled_bytes() > 0);
  CHECK(session.kept().loaded_bytes() > 0);
  CHECK(session.activations().spilled_bytes() > 0);
  CHECK(session.evaluate() == exact);  // the learning rate was 0
}

TEST_CASE("a session trains as predictions chose, to the same bits") {
  RunConfig config = slow_host();
  const auto self = make_self_ranks();
  Session session(config, *self);
  CHECK(session.config().optimizer.interleave > 0.0);
  REQUIRE(session.choices().size() == 1);
  const RunResult chosen = run_steps(session);
  config.optimizer.interleave = 0;
  CHECK(chosen == run_session(config));
}

TEST_CASE("a session submits what an engine without one does, to the same bits") {
  RunConfig config = tiny_config();
  config.run.dtype = DType::kBF16;
  config.schedule.activation_slots = 4;
  config.optimizer.interleave = 0.5;
  for (const int ranks : {1, 2}) {
    Recorder with;
    RunResult result;
    run_ranks(ranks, [&](Ranks& group) {
      const bool watched = group.rank() == 0;
      Session session(config, group, {.trace = watched ? &with : nullptr});
      if (watched) with.start();
      RunResult own = run_steps(session);
      if (watched) with.stop();
      if (watched) result = std::move(own);
    });
    Recorder without;
    trace_run(without, config, ranks);
    CHECK(with.canonical() == without.canonical());
    CHECK(result == run_tiny(config, ranks));
  }
}

}  // namespace strata::test
