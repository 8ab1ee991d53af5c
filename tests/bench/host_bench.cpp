// Measures what the host side reaches: copies over the link while the device computes, pinning
// memory, attention to keys and values that live on the host, and AdamW on the host's threads, left
// to the system and bound to cores. Without a CUDA device it measures attention and AdamW alone, on
// the cpu backend.
//   host_bench [--only copies|pinning|attention|adamw] [--json FILE]

#include "bench/host_bench.h"

#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "bench/lane_times.h"
#include "bench/program.h"
#include "strata/base/this_thread.h"

namespace {

using namespace strata;

/// "0-15": the cores that this process may run on.
std::string text_of(const std::vector<int>& cores) {
  std::string text;
  for (std::size_t i = 0; i < cores.size(); ++i) {
    if (i > 0 && cores[i] == cores[i - 1] + 1) continue;
    std::size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(cores[i]);
    if (last > i) text += "-" + std::to_string(cores[last]);
  }
  return text;
}

class HostBench {
 public:
  explicit HostBench(bench::Options options) : options_(std::move(options)) {}

  void run() {
    const std::vector<int> all = cores_of_this_thread();
    measure("not bound", {});
    // As run.bind does it: the first core is the submitting thread's and the driver's.
    if (wanted("adamw") && all.size() >= 4) measure("bound", {all.begin() + 1, all.end()});
    results_["cores"] = text_of(all);
    bench::write_json(options_.json, results_);
  }

 private:
  [[nodiscard]] bool wanted(const std::string& name) const {
    return name.find(options_.only) != std::string::npos;
  }

  void measure(const std::string& threads, const std::vector<int>& cores) {
    const bool cuda = cuda_available();
    bench::LaneTimes times;
    Backend backend = make_backend(cuda ? BackendKind::kCuda : BackendKind::kCpu,
                                   {.device = {.trace = &times}, .threads = 0, .cores = cores});
    const std::string device = backend.device->info().name;
    std::printf("%s; %d threads, %s, on cores %s\n", device.c_str(), backend.pool->threads(),
                threads.c_str(), text_of(cores.empty() ? cores_of_this_thread() : cores).c_str());
    nlohmann::json results = nlohmann::json::array();
    if (cores.empty()) measure_link(backend, times, results);
    if (cores.empty() && wanted("attention")) bench::bench_host_attention(backend, times, results);
    if (wanted("adamw")) bench::bench_adamw(backend, times, results);
    results_["device"] = device;
    results_[threads] = {{"threads", backend.pool->threads()}, {"results", results}};
  }

  void measure_link(Backend& backend, bench::LaneTimes& times, nlohmann::json& results) const {
    const bool cuda = backend.device->info().backend == "cuda";
    for (const char* name : {"copies", "pinning"}) {
      if (!cuda && wanted(name)) std::printf("%s: skipped, needs the cuda backend\n", name);
    }
    if (cuda && wanted("copies")) bench::bench_copies(backend, times, results);
    if (cuda && wanted("pinning")) bench::bench_pinning(*backend.device, results);
  }

  bench::Options options_;
  nlohmann::json results_;
};

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program(
      "host_bench", [&] { HostBench(bench::parse_options("host_bench", argc, argv)).run(); });
}
