// Tests that a rank which fails alone while its session is built takes the others down at once: no
// rank waits then for one that waits for it, in NCCL or elsewhere.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/nccl_collectives.h"
#include "strata/base/error.h"
#include "strata/model/config.h"
#include "strata/train/session.h"
#include "support/catch.h"
#include "support/fake_device.h"
#include "support/fake_nccl.h"
#include "support/log_text.h"
#include "support/places.h"
#include "support/scratch_folder.h"
#include "support/thread_ranks.h"
#include "support/tiny_config.h"

namespace strata::test {
namespace {

constexpr int kFailingRanks = 2;

/// What rank 1 does in its start, and what it is given.
struct Fault {
  std::function<void()> allocates = nullptr;  ///< before it takes memory
  std::function<void()> may_end = nullptr;    ///< between the parts of the start
  RunConfig config = tiny_config();           ///< of all ranks, but for
  std::string model_path{};                   ///< that of rank 1
};

/// What came of a start.
struct Start {
  std::string thrown = "nothing";
  std::string log;
  bool hung = false;  ///< a rank has waited for ever for one that closes its connection, too
  int open = 0;       ///< connections that nobody closed
};

/// Builds sessions on fake GPUs that a fake NCCL connects.
Start start(FakeNccl& nccl, const Fault& fault) {
  Start start;
  const LogText log;
  try {
    run_ranks(kFailingRanks, [&](Ranks& ranks) {
      const bool faulty = ranks.rank() == 1;
      SessionHooks hooks;
      hooks.make_backend = [&](BackendKind, const BackendOptions& options) {
        FakeDevice::Hooks device;
        if (faulty) device.allocates = fault.allocates;
        return make_fake_backend(std::make_unique<FakeDevice>(options.device, device), options);
      };
      hooks.make_collectives = [&](RankGroups& groups, Device& device) {
        return GroupCollectives{.shard = make_nccl_collectives(nccl.api(), groups.shard(), device),
                                .replicas = make_collectives(groups.replicas(), device)};
      };
      RunConfig config = fault.config;
      if (faulty) {
        hooks.may_end = fault.may_end;
        config.model.path = fault.model_path;
      }
      try {
        const Session session(config, ranks, hooks);
      } catch (const BackendError&) {
        nccl.release();  // MPI's end of a job ends whoever waits in NCCL
        throw;
      }
    });
  } catch (const BackendError& error) {
    start.thrown = error.what();
  }
  start.log = log.text();
  start.hung = nccl.hung();
  start.open = nccl.open();
  return start;
}

}  // namespace

TEST_CASE("a rank whose memory is refused in its start takes the others down, whenever it is") {
  int refused = 1;
  while (true) {
    INFO("the call " << refused);
    FakeNccl nccl;
    int calls = 0;
    const Start failed = start(nccl, {.allocates = [&] {
                                 if (++calls == refused) throw OutOfMemory("the GPU is full");
                               }});
    REQUIRE(!failed.hung);
    CHECK(failed.open == 0);
    if (calls < refused) {
      CHECK(failed.thrown == "nothing");
      break;
    }
    CHECK(failed.thrown == "rank 1 aborted with exit code 3");
    CHECK_THAT(failed.log, ContainsSubstring("[error] the GPU is full"));
    CHECK(nccl.aborted() >= (refused > 1 ? 1 : 0));
    ++refused;
  }
  CHECK(refused > 3);  // the memory that NCCL runs in first, and arenas
}

TEST_CASE("a rank that NCCL cannot connect in its start takes the others down") {
  FakeNccl nccl;
  nccl.fail_connecting(1, "peer access is not supported");
  const Start failed = start(nccl, {});
  CHECK(failed.thrown == "rank 1 aborted with exit code 1");
  CHECK_THAT(failed.log, ContainsSubstring("peer access is not supported"));
  CHECK(!failed.hung);
}

TEST_CASE("a rank whose weights cannot be read any more takes the others down") {
  namespace fs = std::filesystem;
  const fs::path whole = fs::path(goldens_folder()) / "mha";
  const ScratchFolder own;
  for (const char* const name : {"config.json", "model.safetensors"}) {
    fs::copy(whole / name, own.file(name));
  }
  Fault fault;
  fault.config.model.path = whole;
  fault.config.model.llama = load_llama_config(whole / "config.json");
  fault.model_path = own.file("");
  int parts = 0;
  fault.may_end = [&] {  // the third time is after all memory is taken
    if (++parts == 3) fs::remove(own.file("model.safetensors"));
  };
  FakeNccl nccl;
  const Start failed = start(nccl, fault);
  CHECK(parts == 3);
  CHECK(!failed.hung);
  CHECK(failed.thrown == "rank 1 aborted with exit code 2");
  CHECK_THAT(failed.log, ContainsSubstring("model.safetensors"));
}

}  // namespace strata::test
