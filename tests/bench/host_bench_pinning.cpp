// Measures what it takes to pin host memory, by the device's arena memory and by the vendor's
// allocator.

#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "bench/host_bench.h"
#include "strata/base/bytes.h"

namespace strata::bench {
namespace {

constexpr std::size_t kBytes = 8 * kGiB;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Share of the range that lies on huge pages, as far as the mappings that it touches show.
double huge_share(const std::byte* data, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  std::ifstream file("/proc/self/smaps");
  bool within = false;
  double huge_bytes = 0;
  for (std::string line; std::getline(file, line);) {
    std::uintptr_t from = 0;
    std::uintptr_t to = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2) {
      within = from < begin + bytes && to > begin;
    } else if (within && line.starts_with("AnonHugePages:")) {
      huge_bytes += 1024 * std::strtod(line.c_str() + line.find(':') + 1, nullptr);
    }
  }
  return std::min(1.0, huge_bytes / static_cast<double>(bytes));
}

}  // namespace

void bench_pinning(Device& device, nlohmann::json& results) {
  const double gib = static_cast<double>(kBytes) / static_cast<double>(kGiB);
  // A virtual machine may have to fetch memory from its host the first time.
  for (const char* name : {"pinned arena, first", "pinned arena"}) {
    const auto begin = std::chrono::steady_clock::now();
    const auto memory = device.allocate(Space::kPinned, kBytes);
    const double seconds = seconds_since(begin) / gib;
    const double huge = huge_share(memory->data(), kBytes);
    std::printf("%-44s %6.3f s/GiB, %.0f %% on huge pages\n", name, seconds, 100 * huge);
    results.push_back({{"name", name}, {"s_per_gib", seconds}, {"huge_pages", huge}});
  }
  const double vendor = vendor_pinning_seconds(kBytes / 2) / (gib / 2);
  std::printf("%-44s %6.3f s/GiB\n", "cudaHostAlloc", vendor);
  results.push_back({{"name", "cudaHostAlloc"}, {"s_per_gib", vendor}});
}

}  // namespace strata::bench
