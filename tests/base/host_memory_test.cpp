// Tests that limits of both versions of control groups are read right, on folders of made-up files
// in place of /proc and /sys.

#include "strata/base/host_memory.h"

#include <string>
#include <vector>

#include "strata/base/bytes.h"
#include "support/catch.h"
#include "support/scratch_folder.h"

using namespace strata;

namespace {

/// Files that stand for /proc and /sys.
struct System {
  HostMemory read() const { return read_host_memory(folder.file("")); }
  void group(const std::string& path, const std::string& limit, const std::string& current,
             const std::string& stat = "") const {
    folder.write("sys/fs/cgroup/" + path + "/memory.max", limit + "\n");
    folder.write("sys/fs/cgroup/" + path + "/memory.current", current + "\n");
    folder.write("sys/fs/cgroup/" + path + "/memory.stat", stat);
  }
  ScratchFolder folder;
};

}  // namespace

TEST_CASE("available memory is read from meminfo") {
  const System system;
  CHECK_FALSE(system.read().available_bytes.has_value());
  system.folder.write("proc/meminfo",
                      "MemTotal:       24682416 kB\nMemFree:        100 kB\nHugePages_Total:  0\n"
                      "MemAvailable:    2048 kB\nBuffers:  9580 kB\n");
  const HostMemory memory = system.read();
  CHECK(memory.available_bytes == 2 * kMiB);
  CHECK_FALSE(memory.group.has_value());
}

TEST_CASE("a control group of version 2 leaves its limit without what is in use") {
  const System system;
  system.folder.write("proc/self/cgroup", "0::/job/task\n");
  system.group("job/task", "1048576", "262144");
  const HostMemory memory = system.read();
  REQUIRE(memory.group.has_value());
  CHECK(memory.group->limit_bytes == 1048576);
  CHECK(memory.group->free_bytes == 1048576 - 262144);
  CHECK(memory.group->folder == system.folder.file("sys/fs/cgroup/job/task"));
}

TEST_CASE("file caches of a group do not count as in use, shared memory does") {
  const System system;
  system.folder.write("proc/self/cgroup", "0::/job\n");
  system.group("job", "1000000", "700000",
               "anon 100000\nfile 550000\nshmem 50000\ninactive_anon 150000\n"
               "inactive_file 300000\nactive_file 200000\n");
  CHECK(system.read().group->free_bytes == 1000000 - 200000);
}

TEST_CASE("the group that leaves least decides, wherever it lies above the process") {
  const System system;
  system.folder.write("proc/self/cgroup", "0::/job/step/task\n");
  system.group("job/step/task", "max", "10");
  system.group("job/step", "9000", "10");
  system.group("job", "10000", "8000");
  const HostMemory memory = system.read();
  REQUIRE(memory.group.has_value());
  CHECK(memory.group->free_bytes == 2000);
  CHECK(memory.group->limit_bytes == 10000);
}

TEST_CASE("inside a container the limit lies at the mount point") {
  const System system;
  system.folder.write("proc/self/cgroup", "0::/kubepods/not-visible-here\n");
  system.group(".", "5000", "6000");
  CHECK(system.read().group->free_bytes == 0);  // above its limit
}

TEST_CASE("a control group of version 1 is read, and its largest number is no limit") {
  const System system;
  system.folder.write("proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/job\n0::/\n");
  const auto write = [&](const std::string& group, const std::string& limit) {
    system.folder.write("sys/fs/cgroup/memory/" + group + "/memory.limit_in_bytes", limit);
    system.folder.write("sys/fs/cgroup/memory/" + group + "/memory.usage_in_bytes", "3000");
    system.folder.write("sys/fs/cgroup/memory/" + group + "/memory.stat",
                        "inactive_file 1\ntotal_inactive_file 200\ntotal_active_file 300\n");
  };
  write("job", "9223372036854771712");
  CHECK_FALSE(system.read().group.has_value());
  write("job", "4000");
  CHECK(system.read().group->free_bytes == 4000 - (3000 - 500));
}

TEST_CASE("memory that a process touches is resident, and stays in its peak") {
  constexpr std::size_t kTaken = 64 * kMiB;
  constexpr std::size_t kSlack = 4 * kMiB;  // the system counts pages in batches
  const std::size_t before = resident_bytes();
  CHECK(before > 100 * kKiB);
  {
    const std::vector<char> taken(kTaken, 'x');
    CHECK(resident_bytes() + kSlack >= before + kTaken);
    CHECK(taken.back() == 'x');
  }
  CHECK(peak_resident_bytes() + kSlack >= before + kTaken);
}
