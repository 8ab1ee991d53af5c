// What the host side reaches: copies over the link while the device computes, pinning memory, and
// AdamW on the host's threads. Without a CUDA device only AdamW, on the cpu backend.
//   host_bench [--only copies|pinning|adamw] [--json FILE]

#include "bench/host_bench.h"

#include <sched.h>

#include <cstdio>
#include <string>

#include "bench/lane_times.h"
#include "bench/program.h"

namespace {

using namespace strata;

/// "0-15": the cores that this process may run on.
std::string cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return "unknown";
  std::string text;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &set) || (core > 0 && CPU_ISSET(core - 1, &set))) continue;
    int last = core;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(core);
    if (last > core) text += "-" + std::to_string(last);
  }
  return text;
}

void run(const bench::Options& options) {
  const bool cuda = cuda_available();
  bench::LaneTimes times;
  Backend backend = make_backend(cuda ? BackendKind::kCuda : BackendKind::kCpu,
                                 {.device = {.trace = &times}, .threads = 0});
  const std::string device = backend.device->info().name;
  std::printf("%s; %d threads, not bound, on cores %s\n", device.c_str(), backend.pool->threads(),
              cores().c_str());
  nlohmann::json results = nlohmann::json::array();
  const auto wanted = [&](const std::string& name) {
    return name.find(options.only) != std::string::npos;
  };
  for (const char* name : {"copies", "pinning"}) {
    if (!cuda && wanted(name)) std::printf("%s: skipped, needs the cuda backend\n", name);
  }
  if (cuda && wanted("copies")) bench::bench_copies(backend, times, results);
  if (cuda && wanted("pinning")) bench::bench_pinning(*backend.device, results);
  if (wanted("adamw")) bench::bench_adamw(backend, times, results);
  bench::write_json(options.json, {{"device", device},
                                   {"threads", backend.pool->threads()},
                                   {"cores", cores()},
                                   {"results", results}});
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program("host_bench",
                            [&] { run(bench::parse_options("host_bench", argc, argv)); });
}
