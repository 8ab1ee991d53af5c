// Tests that ranks which fail, alone or together, all end, and with what went wrong.

#include <fstream>
#include <string>

#include "e2e/saved_runs.h"
#include "support/catch.h"
#include "support/places.h"

namespace strata::test {

#ifdef STRATA_MPIEXEC
namespace {

/// A fault is known to `env` by its variables.
Outcome train_on_two(const Folder& folder, const std::string& fault, const std::string& train) {
  const std::string preload = "LD_PRELOAD=" + built("libfaulty_disk.so") + " ";
  return run(folder, kMpiExec + "-n 2 env " + preload + fault + " " + kProgram + train);
}

}  // namespace

TEST_CASE("ranks whose data cannot be read any more end, whether one or all", "[long][mpi]") {
  if (skips_preload()) return;
  const Folder folder;
  const std::string data = tokenize_text(folder);
  for (const std::string rank : {"FAULT_RANK=0", "FAULT_RANK=1", ""}) {
    const Outcome failed =
        train_on_two(folder, "FAULT_PATH=/train.bin FAIL_CALL=pread FAIL_AFTER=120 " + rank,
                     train_short(folder, "run",
                                 data + " --overwrite --set checkpoint.every_steps=1"
                                        " --set run.steps=1000000000"));
    INFO(rank << "\n" << failed.text);
    CHECK(failed.code == 2);
    CHECK_THAT(failed.text,
               ContainsSubstring("train.bin") && ContainsSubstring("Input/output error"));
    CHECK(!losses(folder / "run").empty());
  }
}

TEST_CASE("a checkpoint that one rank of two cannot read ends the start, and loses nothing",
          "[mpi][long]") {
  if (skips_preload()) return;
  const Folder folder;
  const std::string keep = "--set checkpoint.keep=2 --set checkpoint.every_steps=6 ";
  // One rank trains on as many rows, before and afterwards.
  const std::string alone = "--set schedule.rows=2 ";
  const Outcome whole = strata(folder, train_short(folder, "whole", keep + alone));
  INFO(whole.text);
  REQUIRE(whole.code == 0);
  fs::copy(folder / "whole", folder / "run", fs::copy_options::recursive);
  const std::string more = keep + " --set run.steps=14 --resume ";
  // tests/train/load_end_test.cpp fails every read, resume_choice_test.cpp whatever is chosen.
  struct Fault {
    std::string file, call, reason, from;
  };
  for (const Fault& f :
       {Fault{"step-00000012/state/layers.2.safetensors", "pread", "Input/output error", "auto"},
        Fault{"manifest.json", "open", "No such file or directory", "12"}}) {
    const std::string fault = "FAULT_RANK=1 FAULT_PATH=" + f.file + " FAIL_CALL=" + f.call;
    const Outcome ended = train_on_two(folder, fault, train_short(folder, "run", more + f.from));
    INFO(ended.text);
    CHECK(ended.code == 2);
    CHECK_THAT(ended.text, ContainsSubstring("rank 1") && ContainsSubstring(f.file) &&
                               ContainsSubstring(f.reason));
    CHECK(names_in(folder / "run/checkpoints") == names_in(folder / "whole/checkpoints"));
    CHECK(read_file(folder / "run/metrics.jsonl") == read_file(folder / "whole/metrics.jsonl"));
  }
  const Outcome mended = strata(folder, train_short(folder, "run", alone + more + "auto"));
  INFO(mended.text);
  CHECK(mended.code == 0);
  CHECK_THAT(mended.text, ContainsSubstring("(step 12)"));
}
#endif

}  // namespace strata::test
