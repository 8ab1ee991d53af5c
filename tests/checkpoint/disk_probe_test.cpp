// Tests what a probe measures, that nothing of it stays, and that each refusal names the key.

#include "strata/checkpoint/disk_probe.h"

#include <atomic>
#include <cerrno>
#include <filesystem>

#include "checkpoint/file_places.h"
#include "checkpoint/memory_files.h"
#include "strata/base/bytes.h"
#include "support/catch.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

/// A probe by a clock that stands still, so that there is always time left.
const ProbeSize kSmall{
    .bytes = 6 * kMiB + 100, .seconds = 10, .writers = 3, .clock = [] { return 1.0; }};

TEST_CASE("a probe of this machine's disk tells rate and room, and leaves nothing") {
  const ScratchFolder scratch;
  const auto files = make_system_files();
  ProbeSize size = kSmall;
  size.clock = steady_seconds;
  const DiskProbe probe = probe_disk(*files, scratch.path(), size);
  CHECK(probe.write_gbs > 0);
  REQUIRE(probe.free_bytes);
  CHECK(*probe.free_bytes > 0);
  CHECK(files->list(scratch.path()).empty());
}

TEST_CASE("a probe writes its bytes and no more, and one piece even if there is no time") {
  MemoryFiles files;
  const auto written = [&](const ProbeSize& size) {
    std::uint64_t bytes = 0;
    const std::size_t begin = files.operations();
    (void)probe_disk(files, "/", size);
    for (std::size_t i = begin; i < files.operations(); ++i) {
      const MemoryFiles::Operation operation = files.operation(i);
      if (operation.change == MemoryFiles::Change::kWrite) bytes += operation.bytes;
    }
    return bytes;
  };
  CHECK(written(kSmall) == kSmall.bytes);
  std::atomic<int> looks = 0;
  const auto clock = [&] { return static_cast<double>(looks++); };  // a second for each look
  CHECK(written({.bytes = 64 * kMiB, .seconds = 0, .writers = 2, .clock = clock}) == 4 * kMiB);
  CHECK(written({.bytes = 10, .seconds = 1, .writers = 2, .clock = clock}) == 10);
}

TEST_CASE("the rate of a probe is that of all that was written, by the clock that it has") {
  MemoryFiles files;
  int looks = 0;
  const DiskProbe probe = probe_disk(
      files, "/",
      {.bytes = 1'000'000, .seconds = 10, .writers = 1, .clock = [&] { return 0.5 * looks++; }});
  // When the probe begins, when its writers do, and when all is synchronised.
  CHECK(looks == 3);
  CHECK(probe.write_gbs == Approx(1e-3 / (0.5 * (looks - 1))));
}

TEST_CASE("a probe that any operation fails names run.output, the folder and why, and cleans up") {
  MemoryFiles whole("/runs");
  (void)probe_disk(whole, "/runs", kSmall);
  const std::size_t operations = whole.operations();
  REQUIRE(operations == 7);  // create, reserve, two writes, sync, remove, sync of the folder
  for (std::size_t i = 0; i < operations; ++i) {
    MemoryFiles files("/runs");
    files.fail_at(i, EIO);
    CHECK_THAT(io_error_of([&] { (void)probe_disk(files, "/runs", kSmall); }),
               ContainsSubstring("run.output: checkpoints cannot be written to /runs: ") &&
                   ContainsSubstring("Input/output error; the disk reports a fault"));
    // What cannot be removed stays, under a name that says what it is.
    const bool stays = whole.operation(i).change == MemoryFiles::Change::kRemove;
    REQUIRE(files.list("/runs").size() == (stays ? 1u : 0u));
    if (stays) CHECK(files.list("/runs").front().starts_with(kProbePrefix));
  }
}

TEST_CASE("a probe of a folder that is none, or of a full disk, says what to do") {
  const ScratchFolder scratch;
  const auto files = make_system_files();
  CHECK_THAT(io_error_of([&] { (void)probe_disk(*files, scratch.path() / "none", kSmall); }),
             ContainsSubstring("none: No such file or directory") ||
                 ContainsSubstring("create: No such file or directory"));
  write_whole(*files, scratch.path() / "file", bytes_of("x"));
  CHECK_THAT(io_error_of([&] { (void)probe_disk(*files, scratch.path() / "file", kSmall); }),
             ContainsSubstring("is a file; name a folder"));
  MemoryFiles full("/runs");
  full.set_capacity(kMiB);
  CHECK_THAT(io_error_of([&] { (void)probe_disk(full, "/runs", kSmall); }),
             ContainsSubstring("No space left on device; free space on this disk"));
}

}  // namespace
}  // namespace strata
