// Plants each fault of a start in the facts of invented ranks, and looks whether it is named with
// ranks, hosts and remedy.

#include "strata/launch/launch_checks.h"

#include <functional>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/launch/launch_facts.h"
#include "strata/launch/rank_agreement.h"
#include "support/catch.h"
#include "support/thread_ranks.h"

namespace strata::test {
namespace {

constexpr int kCores = 16;  // of a machine

/// Returns ranks 0 to 3, two on host a and two on host b, each with a GPU, as they should be.
std::vector<LaunchFacts> good_ranks() {
  std::vector<LaunchFacts> ranks(4);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    LaunchFacts& facts = ranks[rank];
    facts.host = rank < 2 ? "a" : "b";
    facts.cores.machine[0] = rank < 2 ? 'a' : 'b';
    for (std::size_t core = 0; core < kCores; ++core) facts.cores.cores.set(core);
    facts.machine_cores = kCores;
    facts.backend = "cuda";
    facts.visible_gpus = 2;
    facts.gpu = "NVIDIA H200";
    facts.pci_bus_id = rank % 2 == 0 ? "0000:1B:00.0" : "0000:43:00.0";
    facts.uuid = std::to_string(rank);
    facts.driver_version = 12080;
    facts.runtime_version = 12080;
    facts.nccl = "2.28.3";
  }
  return ranks;
}

void set_cores(LaunchFacts& facts, std::size_t begin, std::size_t end) {
  facts.cores.cores.reset();
  for (std::size_t core = begin; core < end; ++core) facts.cores.cores.set(core);
}

/// Returns the only error of ranks that were good before the change.
std::string only_error(const std::function<void(std::vector<LaunchFacts>&)>& change) {
  std::vector<LaunchFacts> ranks = good_ranks();
  change(ranks);
  const LaunchFindings found = check_launch(ranks);
  return found.errors.size() == 1 ? found.errors.front()
                                  : std::to_string(found.errors.size()) + " errors";
}

/// Likewise the only warning, without an error.
std::string only_warning(const std::function<void(std::vector<LaunchFacts>&)>& change) {
  std::vector<LaunchFacts> ranks = good_ranks();
  change(ranks);
  const LaunchFindings found = check_launch(ranks);
  return found.warnings.size() == 1 && found.errors.empty() ? found.warnings.front()
                                                            : "another number of findings";
}

TEST_CASE("ranks that were started well pass every check") {
  const LaunchFindings found = check_launch(good_ranks());
  CHECK(found.errors.empty());
  CHECK(found.warnings.empty());
}

TEST_CASE("hosts with different drivers or runtimes are named with both versions") {
  CHECK_THAT(
      only_error([](auto& ranks) { ranks[2].driver_version = ranks[3].driver_version = 12040; }),
      ContainsSubstring("12.8: ranks 0-1 on host a") &&
          ContainsSubstring("12.4: ranks 2-3 on host b") && ContainsSubstring("one driver"));
  CHECK_THAT(only_error([](auto& ranks) { ranks[1].runtime_version = 13000; }),
             ContainsSubstring("CUDA runtimes") && ContainsSubstring("13.0: rank 1 on host a") &&
                 ContainsSubstring("one container"));
}

TEST_CASE("ranks without NCCL, or with another version of it, are named") {
  const auto without = [](auto& ranks) {
    ranks[1].nccl = "";
    ranks[1].nccl_problem = "cannot load NCCL: install libnccl2";
  };
  CHECK_THAT(only_error(without),
             ContainsSubstring("rank 1 on host a cannot use NCCL: cannot load NCCL: install"));
  CHECK_THAT(only_error([](auto& ranks) { ranks[3].nccl = "2.27.5"; }),
             ContainsSubstring("versions of NCCL") &&
                 ContainsSubstring("2.27.5: rank 3 on host b") &&
                 ContainsSubstring("2.28.3: ranks 0-1 on host a"));
}

TEST_CASE("a rank that would run on another backend is named") {
  const auto to_cpu = [](auto& ranks) {
    ranks[3].backend = "cpu";
    ranks[3].visible_gpus = 0;
  };
  CHECK_THAT(only_error(to_cpu),
             ContainsSubstring("cpu: rank 3 on host b") && ContainsSubstring("run.backend"));
}

TEST_CASE("a rank without a GPU is named") {
  CHECK_THAT(
      only_error([](auto& ranks) { ranks[2].visible_gpus = 0; }),
      ContainsSubstring("rank 2 on host b can use no GPU") && ContainsSubstring("--gpus-per-node"));
}

TEST_CASE("two ranks on one GPU are named with it; the same address on two hosts is none") {
  const auto same = [](auto& ranks) {
    ranks[3].pci_bus_id = ranks[2].pci_bus_id;
    ranks[3].uuid = ranks[2].uuid;
  };
  CHECK_THAT(only_error(same),
             ContainsSubstring("ranks 2-3 on host b would share GPU 0000:1B:00.0") &&
                 ContainsSubstring("--ntasks-per-node"));
}

TEST_CASE("ranks that do not see each other's GPUs are told of --gpus-per-node") {
  const auto hide = [](auto& ranks) { ranks[0].visible_gpus = ranks[1].visible_gpus = 1; };
  CHECK_THAT(only_error(hide), ContainsSubstring("ranks 0-1 on host a cannot see") &&
                                   ContainsSubstring("--gpus-per-task") &&
                                   ContainsSubstring("use --gpus-per-node"));
}

TEST_CASE("ranks that a launcher has bound to few cores are named with both remedies") {
  const auto bind = [](auto& ranks) {
    set_cores(ranks[2], 0, 1);
    set_cores(ranks[3], 1, 2);
  };
  CHECK_THAT(only_error(bind), ContainsSubstring("ranks 2-3 on host b (1 of 16 cores)") &&
                                   ContainsSubstring("--bind-to none") &&
                                   ContainsSubstring("--cpus-per-task=8"));
  const auto alone = [](auto& ranks) {
    ranks.resize(3);
    set_cores(ranks[2], 5, 8);
  };
  CHECK_THAT(only_error(alone), ContainsSubstring("rank 2 on host b (3 of 16 cores)"));
}

TEST_CASE("few cores that no launcher is to blame for are a warning") {
  const auto small_machine = [](auto& ranks) {
    for (LaunchFacts& facts : ranks) {
      facts.machine_cores = 2;
      set_cores(facts, 0, 2);
    }
  };
  CHECK_THAT(only_warning(small_machine),
             ContainsSubstring("ranks 0-1 on host a, ranks 2-3 on host b"));
  const auto small_container = [](auto& ranks) {
    set_cores(ranks[0], 0, 2);
    set_cores(ranks[1], 0, 2);
  };
  CHECK_THAT(only_warning(small_container),
             ContainsSubstring("ranks 0-1 on host a;") && ContainsSubstring("--cpus-per-task"));
}

TEST_CASE("different GPUs, and a launcher that counts otherwise, are warnings") {
  CHECK_THAT(only_warning([](auto& ranks) { ranks[1].gpu = "NVIDIA A100"; }),
             ContainsSubstring("NVIDIA A100: rank 1 on host a"));
  CHECK_THAT(only_warning([](auto& ranks) { ranks[0].launched_on_host = 1; }),
             ContainsSubstring("rank 0 on host a (1 by the launcher, 2 found)"));
}

TEST_CASE("different GPUs are an error where ranks are to have one model") {
  std::vector<LaunchFacts> ranks = good_ranks();
  CHECK(check_launch(ranks, GpuModels::kOne).errors.empty());
  ranks[2].gpu = "NVIDIA A100";
  const LaunchFindings found = check_launch(ranks, GpuModels::kOne);
  CHECK(found.warnings.empty());
  REQUIRE(found.errors.size() == 1);
  CHECK_THAT(found.errors.front(), ContainsSubstring("NVIDIA A100: rank 2 on host b") &&
                                       ContainsSubstring("set run.shard_group to \"all\""));
}

TEST_CASE("all faults of a start are told at once") {
  std::vector<LaunchFacts> ranks = good_ranks();
  ranks[1].visible_gpus = 1;
  ranks[2].driver_version = 12040;
  set_cores(ranks[3], 0, 1);
  CHECK(check_launch(ranks).errors.size() == 3);
}

TEST_CASE("ranks of a machine are counted by it, and take GPUs by their place there") {
  std::vector<LaunchFacts> ranks = good_ranks();
  std::swap(ranks[1], ranks[2]);  // a b a b
  CHECK(local_rank(ranks, 0) == 0);
  CHECK(local_rank(ranks, 2) == 1);
  CHECK(local_rank(ranks, 3) == 1);
  CHECK(local_ranks(ranks, 3) == 2);
  CHECK(gpu_of_local_rank(1, 2) == 1);
  CHECK(gpu_of_local_rank(1, 1) == 0);
  CHECK(gpu_of_local_rank(0, 0) == 0);
}

TEST_CASE("the map of ranks has host, GPU, NUMA node and share of cores") {
  std::vector<LaunchFacts> ranks = good_ranks();
  ranks[1].numa_node = 1;
  const std::string map = map_of_ranks(ranks);
  CHECK_THAT(map,
             ContainsSubstring("rank    0  host a  GPU 0000:1B:00.0 NVIDIA H200  NUMA node "
                               "unknown  cores 0-7\n") &&
                 ContainsSubstring("rank    1  host a  GPU 0000:43:00.0 NVIDIA H200  NUMA node "
                                   "1  cores 8-15\n"));
}

TEST_CASE("ranks learn each other's facts") {
  run_ranks(3, [](Ranks& ranks) {
    const std::vector<LaunchFacts> all = gather_launch_facts(BackendKind::kCpu, ranks);
    if (ranks.rank() != 2) return;
    REQUIRE(all.size() == 3);
    CHECK(all[0].host.view() == all[2].host.view());
    CHECK(local_rank(all, 2) == 2);
    CHECK(all[1].backend.view() == "cpu");
    CHECK(all[1].cores.cores.any());
  });
}

TEST_CASE("an error of all ranks is told once, one of some with their ranks") {
  CHECK(failures_text({"no", "no", "no"}) == "on all ranks: no");
  CHECK(failures_text({"", "no", "", "no", "no"}) == "ranks 1, 3-4: no");
  CHECK(failures_text({"a", "b", "a"}) == "ranks 0, 2: a\nrank 1: b");
  CHECK(failures_text({"", ""}).empty());
  std::vector<std::string> texts(3);
  run_ranks(3, [&](Ranks& ranks) {
    try {
      fail_together(ranks, [&] {
        if (ranks.rank() > 0) throw OutOfMemory("too large");
      });
    } catch (const AgreedError& error) {
      CHECK(error.exit_code() == 3);
      texts[static_cast<std::size_t>(ranks.rank())] = error.what();
    }
    fail_together(ranks, [] {});
  });
  for (const std::string& text : texts) CHECK(text == "ranks 1-2: too large");
  const auto self = make_self_ranks();
  CHECK_THROWS_AS(fail_together(*self, [] { throw OutOfMemory("alone"); }), OutOfMemory);
}

}  // namespace
}  // namespace strata::test
