// Reads the folders of /sys that describe PCI devices and NUMA nodes.

#include "strata/base/numa.h"

#include <cctype>
#include <cstddef>
#include <fstream>
#include <sstream>
#include <string>

namespace strata {

CoreBits cores_of_list(const std::string& list) {
  CoreBits cores;
  std::istringstream in(list);
  for (std::size_t first = 0; in >> first; in.ignore(1, ',')) {
    std::size_t last = first;
    if (in.peek() == '-') in.ignore() >> last;
    for (std::size_t core = first; core <= last && core < cores.size(); ++core) cores.set(core);
  }
  return cores;
}

int numa_node_of(const std::string& pci_bus_id, const std::filesystem::path& root) {
  std::string folder = pci_bus_id;  // the system writes it in lower case
  for (char& c : folder) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  int node = -1;
  std::ifstream file(root / "sys/bus/pci/devices" / folder / "numa_node");
  return file >> node ? node : -1;
}

CoreBits cores_of_node(int node, const std::filesystem::path& root) {
  if (node < 0) return {};
  std::ifstream file(root / "sys/devices/system/node" / ("node" + std::to_string(node)) /
                     "cpulist");
  std::string list;
  std::getline(file, list);
  return cores_of_list(list);
}

}  // namespace strata
