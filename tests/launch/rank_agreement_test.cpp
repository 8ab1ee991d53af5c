// Tests that ranks which were given different runs learn which keys differ, on every rank alike.

#include "strata/launch/rank_agreement.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "strata/base/error.h"
#include "strata/base/stop_signals.h"
#include "strata/checkpoint/load_state.h"
#include "support/catch.h"
#include "support/log_text.h"
#include "support/thread_ranks.h"
#include "support/tiny_config.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;

/// Returns what three ranks say, of which the last has changed its config.
std::string told(const std::function<void(RunConfig&)>& change) {
  std::array<std::string, 3> said;
  run_ranks(3, [&](Ranks& ranks) {
    RunConfig config = tiny_config();
    if (ranks.rank() == 2) change(config);
    said[static_cast<std::size_t>(ranks.rank())] = disagreement(facts_of_run(config), ranks);
  });
  CHECK(said[0] == said[1]);
  CHECK(said[0] == said[2]);
  return said[0];
}

TEST_CASE("ranks of different commands all learn which rank has which") {
  const auto said_of = [](const std::array<std::string, 3>& commands) {
    std::array<std::string, 3> said;
    run_ranks(3, [&](Ranks& ranks) {
      const auto rank = static_cast<std::size_t>(ranks.rank());
      try {
        require_one_command(commands[rank], ranks);
      } catch (const AgreedError& error) {
        said[rank] = error.what() + (" " + std::to_string(error.exit_code()));
      }
    });
    CHECK(said[0] == said[1]);
    CHECK(said[0] == said[2]);
    return said[0];
  };
  CHECK(said_of({"train", "train", "train"}).empty());
  CHECK(said_of({"train", "generate", "train"}) ==
        "the ranks were started for different commands; start all of them for one:\n"
        "ranks 0, 2: train\nrank 1: generate 2");
}

TEST_CASE("an error of one rank is told and takes all down, and one of all ranks comes out") {
  const LogText log;
  const auto fail_alone = [](Ranks& ranks) {
    fail_for_all(ranks, [&] {
      if (ranks.rank() == 1) throw OutOfMemory("no memory here");
      ranks.barrier(Channel::kSubmit);
    });
  };
  CHECK_THROWS_WITH(run_ranks(2, fail_alone), "rank 1 aborted with exit code 3");
  CHECK_THAT(log.text(), ContainsSubstring("[error] no memory here"));
  const auto fail_alike = [](const std::function<void()>& body) {
    return [body](Ranks& ranks) { fail_for_all(ranks, body); };
  };
  CHECK_THROWS_AS(run_ranks(2, fail_alike([] { throw AgreedError("of all", 2); })), AgreedError);
  CHECK_THROWS_AS(run_ranks(2, fail_alike([] { throw Interrupted(SIGTERM); })), Interrupted);
  CHECK_THROWS_AS(run_ranks(2, fail_alike([] { throw DamagedCheckpoint("bytes"); })),
                  DamagedCheckpoint);
  CHECK_THROWS_AS(run_ranks(1, fail_alike([] { throw OutOfMemory("alone"); })), OutOfMemory);
}

TEST_CASE("ranks with one config agree") {
  CHECK(told([](RunConfig&) {}).empty());
}

TEST_CASE("every key that a rank has of its own is named with rank and both values") {
  CHECK(told([](RunConfig& c) { c.run.seed = 77; }) ==
        "\n  run.seed: rank 0 has " + std::to_string(tiny_config().run.seed) + ", rank 2 has 77");
  const std::string said = told([](RunConfig& c) {
    c.run.steps = 9;
    c.schedule.passes = 5;
    c.run.eval_every = 3;
    c.optimizer.lr = 1;
    c.optimizer.grad_clip.reset();
    c.optimizer.timing = UpdateTiming::kOnArrival;
  });
  for (const char* key : {"run.steps", "schedule.passes", "run.eval_every", "optimizer.lr",
                          "optimizer.grad_clip", "optimizer.timing"}) {
    CHECK_THAT(said, ContainsSubstring("\n  " + std::string(key) + ": rank 0 has "));
  }
  CHECK_THAT(said, ContainsSubstring("optimizer.grad_clip: rank 0 has 0.7, rank 2 has null"));
}

TEST_CASE("memory limits, folders and threads are a rank's own") {
  CHECK(told([](RunConfig& c) {
          c.memory.device_limit = ByteSize{1000};
          c.memory.host_limit = ByteSize{1000};
          c.run.output = "elsewhere";
          c.run.threads = 7;
        }).empty());
}

TEST_CASE("token files are told apart by what is in them, not by their names") {
  const fs::path folder =
      fs::temp_directory_path() / ("strata_agreement_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "a") << "some tokens";
  std::ofstream(folder / "b") << "some tokens";
  std::ofstream(folder / "c") << "some takens";
  const auto facts = [&](const char* name) {
    RunConfig config = tiny_config();
    config.data.synthetic = false;
    config.data.train = (folder / name).string();
    return facts_of_run(config);
  };
  const auto compare = [&](const char* second) {
    std::string said;
    run_ranks(2, [&](Ranks& ranks) {
      const std::string text = disagreement(facts(ranks.rank() == 0 ? "a" : second), ranks);
      if (ranks.rank() == 0) said = text;
    });
    return said;
  };
  CHECK(compare("b").empty());
  CHECK_THAT(compare("c"), ContainsSubstring("data.train: rank 0 has 11 bytes, samples "));
  CHECK_THROWS_AS(facts("none"), IoError);
  std::ofstream(folder / "b.reference") << "some logs";
  CHECK(compare("b").empty());  // nobody reads it
  const auto compare_stored = [&] {
    std::string said;
    run_ranks(2, [&](Ranks& ranks) {
      RunConfig config = tiny_config();
      config.data.synthetic = false;
      config.data.train = (folder / (ranks.rank() == 0 ? "a" : "b")).string();
      config.train.reference = ReferenceFrom::kStored;
      const std::string text = disagreement(facts_of_run(config), ranks);
      if (ranks.rank() == 0) said = text;
    });
    return said;
  };
  CHECK_THAT(compare_stored(), ContainsSubstring("reference of 9 bytes"));
  std::ofstream(folder / "a.reference") << "some logs";
  CHECK(compare_stored().empty());
  RunConfig mixed = tiny_config();
  mixed.data.synthetic = false;
  const auto file = [&](const char* name) { return (folder / name).string(); };
  mixed.data.train.list = {{.files = {file("a"), file("b")}, .weight = 0.5},
                           {.files = {file("a")}, .weight = 0.5}};
  const auto compare_mixed = [&](const auto& change) {
    std::string said;
    run_ranks(2, [&](Ranks& ranks) {
      RunConfig own = mixed;
      if (ranks.rank() == 1) change(own.data.train.list);
      const std::string text = disagreement(facts_of_run(own), ranks);
      if (ranks.rank() == 0) said = text;
    });
    return said;
  };
  CHECK(compare_mixed([](auto&) {}).empty());
  CHECK_THAT(compare_mixed([&](auto& list) { list[0].files[1] = file("c"); }),
             ContainsSubstring("data.train[0] file 1"));
  CHECK_THAT(compare_mixed([](auto& list) { list[1].weight = 0.25; }),
             ContainsSubstring("data.train[1]"));
  CHECK_THAT(compare_mixed([](auto& list) { list[0].files.pop_back(); }),
             ContainsSubstring("data.train[0]"));
  fs::remove_all(folder);
}

TEST_CASE("adapters that a run begins with are told apart by what is in them") {
  const fs::path folder =
      fs::temp_directory_path() / ("strata_agreement_" + std::to_string(::getpid()));
  for (const char* name : {"a", "b", "c"}) {
    fs::create_directories(folder / name / "adapter");
    std::ofstream(folder / name / "adapter/layers.0.safetensors") << (*name == 'c' ? "C" : "A");
  }
  const auto compare = [&](const char* second) {
    std::string said;
    run_ranks(2, [&](Ranks& ranks) {
      RunConfig config = tiny_config();
      config.adapter.emplace().path = (folder / (ranks.rank() == 0 ? "a" : second)).string();
      const std::string text = disagreement(facts_of_run(config), ranks);
      if (ranks.rank() == 0) said = text;
    });
    return said;
  };
  CHECK(compare("b").empty());
  CHECK_THAT(compare("c"), ContainsSubstring("adapter.path/layers.0.safetensors: rank 0 has "));
  fs::remove_all(folder);
}

TEST_CASE("what a rank decides for itself may differ, what others wait for may not") {
  RunConfig a = tiny_config();
  RunConfig b = a;
  b.schedule.activation_slots = 5;
  b.memory.host_limit = ByteSize{1000};
  std::string own;
  std::string shared;
  run_ranks(2, [&](Ranks& ranks) {
    const std::string first = disagreement(facts_of_plan(ranks.rank() == 0 ? a : b), ranks);
    RunConfig c = b;
    c.schedule.resident_units = 1;
    const std::string second = disagreement(facts_of_plan(ranks.rank() == 0 ? a : c), ranks);
    if (ranks.rank() != 0) return;
    own = first;
    shared = second;
  });
  CHECK(own.empty());
  CHECK(shared == "\n  schedule.resident_units: rank 0 has 0, rank 1 has 1");
}

}  // namespace
}  // namespace strata::test
