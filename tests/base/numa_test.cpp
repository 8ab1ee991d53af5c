// What the system says of cores and NUMA nodes is read from a folder that stands for its root.

#include "strata/base/numa.h"

#include "support/catch.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

CoreBits cores(std::initializer_list<std::size_t> numbers) {
  CoreBits set;
  for (const std::size_t number : numbers) set.set(number);
  return set;
}

TEST_CASE("lists of cores have ranges and single cores") {
  CHECK(cores_of_list("2-4,9,11-12\n") == cores({2, 3, 4, 9, 11, 12}));
  CHECK(cores_of_list("0") == cores({0}));
  CHECK(cores_of_list("").none());
  CHECK(cores_of_list("none").none());
  CHECK(cores_of_list("4094-9999999") == cores({4094, 4095}));
}

TEST_CASE("the NUMA node of a GPU and its cores are read from the system") {
  const ScratchFolder folder;
  folder.write("sys/bus/pci/devices/0000:1b:00.0/numa_node", "1\n");
  folder.write("sys/devices/system/node/node1/cpulist", "2-4,9,11-12\n");
  const std::filesystem::path root = folder.file("");
  CHECK(numa_node_of("0000:1B:00.0", root) == 1);
  CHECK(numa_node_of("0000:43:00.0", root) == -1);
  CHECK(cores_of_node(1, root) == cores({2, 3, 4, 9, 11, 12}));
  CHECK(cores_of_node(0, root).none());
  CHECK(cores_of_node(-1, root).none());
}

}  // namespace
}  // namespace strata
