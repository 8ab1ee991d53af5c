// Cores, and which of them are near a device, as Linux tells. Ranks take their share of a machine
// by it, and `doctor` looks whether they can. What the system does not say is absent: nothing
// throws.
#pragma once

#include <bitset>
#include <filesystem>
#include <string>

namespace strata {

/// A set of cores by number; those with larger numbers are left out.
using CoreBits = std::bitset<4096>;

/// Returns the cores, or nodes, of a list as Linux writes it: "0-15,64-79".
[[nodiscard]] CoreBits cores_of_list(const std::string& list);

/// Returns the NUMA node of a PCI device, -1 if the system does not say. `root` is the root folder
/// of the system, for tests.
[[nodiscard]] int numa_node_of(const std::string& pci_bus_id,
                               const std::filesystem::path& root = "/");
/// Returns the cores of a NUMA node, none if the system does not say.
[[nodiscard]] CoreBits cores_of_node(int node, const std::filesystem::path& root = "/");

}  // namespace strata
