// The system is asked by its files, and GPUs by nvidia-smi, which comes with their driver.

#include "commands/machine_provenance.h"

#include <sys/utsname.h>

#include <cstddef>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/base/host_memory.h"
#include "strata/base/narrow.h"
#include "strata/base/run_program.h"
#include "strata/base/thread_pool.h"
#include "strata/base/version.h"
#include "strata/comm/ranks.h"

namespace strata {

namespace {

constexpr const char* kSpace = " \t";

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// Returns what stands behind "key : " in a file of the system.
std::optional<std::string> value_in(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || trimmed(line.substr(0, colon)) != key) continue;
    return trimmed(line.substr(colon + 1));
  }
  return std::nullopt;
}

/// Returns the memory of the machine, or the limit of a control group that leaves less.
std::optional<std::int64_t> host_memory() {
  std::optional<std::int64_t> bytes;
  if (const std::optional<std::string> total = value_in("/proc/meminfo", "MemTotal")) {
    std::istringstream text(*total);
    std::int64_t kib = 0;
    if (text >> kib) bytes = kib * narrow<std::int64_t>(kKiB);
  }
  if (const std::optional<GroupMemory> group = read_host_memory().group) {
    const auto limit = narrow<std::int64_t>(group->limit_bytes);
    if (!bytes || limit < *bytes) bytes = limit;
  }
  return bytes;
}

std::optional<std::string> system_name() {
  utsname name{};
  if (::uname(&name) != 0) return std::nullopt;
  return std::string(name.sysname) + " " + name.release;
}

/// Fills in GPUs and driver, if there is an nvidia-smi that knows them.
void ask_gpus(Provenance& machine) {
  constexpr double kPatienceS = 20;
  const ProgramAnswer answer =
      run_program({"nvidia-smi", "--query-gpu=driver_version,name,memory.total,power.limit",
                   "--format=csv,noheader"},
                  kPatienceS);
  if (!answer.failure.empty()) return;
  std::istringstream lines(answer.text);
  std::vector<std::string> gpus;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t comma = line.find(',');
    if (comma == std::string::npos) continue;
    machine.driver = trimmed(line.substr(0, comma));
    gpus.push_back(trimmed(line.substr(comma + 1)));
  }
  if (!gpus.empty()) machine.gpus = std::move(gpus);
}

}  // namespace

Provenance this_machine() {
  const BuildInfo build = build_info();
  Provenance machine;
  machine.version = build.version;
  machine.commit = build.commit;
  machine.date = utc_now();
  machine.host = this_host();
  machine.system = system_name();
  machine.cpu = value_in("/proc/cpuinfo", "model name");
  machine.cores = usable_cores();
  machine.host_memory_bytes = host_memory();
  ask_gpus(machine);
  return machine;
}

}  // namespace strata
