// nvidia-smi is a script that answers whatever fields it is asked for, as the real one does.

#include "doctor/planted_machine.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "strata/base/error.h"
#include "strata/checkpoint/files.h"
#include "support/catch.h"
#include "support/patience.h"
#include "support/places.h"

namespace strata::test {

namespace {

namespace fs = std::filesystem;

std::map<std::string, std::string> good_gpu(const std::string& index, const std::string& bus) {
  return {{"index", index},
          {"uuid", "GPU-0000000" + index},
          {"name", "NVIDIA H200"},
          {"pci.bus_id", "00000000:" + bus + ":00.0"},
          {"driver_version", "570.86.15"},
          {"compute_cap", "9.0"},
          {"memory.total", "143771"},
          {"memory.used", "4"},
          {"utilization.gpu", "0"},
          {"compute_mode", "Default"},
          {"mig.mode.current", "Disabled"},
          {"ecc.errors.uncorrected.volatile.total", "0"},
          {"clocks_throttle_reasons.active", "0x0000000000000001"},
          {"power.limit", "700.00"},
          {"power.default_limit", "700.00"},
          {"pcie.link.width.current", "16"},
          {"pcie.link.width.max", "16"},
          {"pcie.link.gen.max", "5"}};
}

DeviceInfo good_device(const std::string& bus) {
  return {.backend = "cuda",
          .name = "NVIDIA H200",
          .memory_bytes = std::size_t{140} << 30,
          .pci_bus_id = "0000:" + bus + ":00.0"};
}

/// Takes what is written, and keeps none of it.
class EndlessWriter final : public FileWriter {
 public:
  EndlessWriter(std::string file, std::uint64_t room) : file_(std::move(file)), room_(room) {}
  void reserve(std::uint64_t bytes) override {
    if (bytes > room_) throw IoError(file_ + ": cannot reserve room: No space left on device");
  }
  void write(std::uint64_t, std::span<const std::byte>) override {}
  void sync() override {}

 private:
  std::string file_;
  std::uint64_t room_;
};

}  // namespace

/// The disk of this machine, but for its room and its rate.
class PlantedDisk final : public Files {
 public:
  std::uint64_t room = std::uint64_t{1} << 40;

  [[nodiscard]] std::unique_ptr<FileWriter> create(const Path& file) override {
    (void)files_->create(file);
    return std::make_unique<EndlessWriter>(file.string(), room);
  }
  [[nodiscard]] std::unique_ptr<FileWriter> open_to_write(const Path& file) override {
    return files_->open_to_write(file);
  }
  [[nodiscard]] std::unique_ptr<FileReader> open(const Path& file) const override {
    return files_->open(file);
  }
  void make_folder(const Path& folder) override { files_->make_folder(folder); }
  void rename(const Path& from, const Path& to) override { files_->rename(from, to); }
  void remove(const Path& path) override { files_->remove(path); }
  void sync_folder(const Path&) override {}
  [[nodiscard]] Kind kind(const Path& path) const override { return files_->kind(path); }
  [[nodiscard]] std::vector<std::string> list(const Path& folder) const override {
    return files_->list(folder);
  }
  [[nodiscard]] std::optional<std::uint64_t> free_bytes(const Path&) const override { return room; }

 private:
  std::unique_ptr<Files> files_ = make_system_files();
};

PlantedMachine::~PlantedMachine() = default;

void PlantedMachine::set_free_bytes(std::uint64_t bytes) { disk_->room = bytes; }

PlantedMachine::PlantedMachine()
    : disk_(std::make_unique<PlantedDisk>()), gpus_{good_gpu("0", "1B"), good_gpu("1", "43")} {
  write("proc/meminfo",
        "MemTotal:       536870912 kB\nMemFree:        500000000 kB\nMemAvailable:   524288000 kB\n"
        "SwapTotal:        8388608 kB\nSwapFree:         8388608 kB\n");
  write("proc/self/status",
        "Name:\tstrata\nCapEff:\t0000000000000000\nCpus_allowed_list:\t0-15\n"
        "Mems_allowed_list:\t0-1\n");
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/job/memory.max", "max\n");
  write("sys/fs/cgroup/job/cpu.max", "max 100000\n");
  write("sys/devices/system/cpu/online", "0-15\n");
  write("sys/devices/system/node/online", "0-1\n");
  write("sys/devices/system/node/node0/cpulist", "0-7\n");
  write("sys/devices/system/node/node1/cpulist", "8-15\n");
  write("sys/bus/pci/devices/0000:1b:00.0/numa_node", "0\n");
  write("sys/bus/pci/devices/0000:43:00.0/numa_node", "1\n");
  write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  fs::create_directories(folder_.file("runs"));
  write_nvidia_smi();
  install("mpirun", "echo 'mpirun (Open MPI) 4.1.4'\n");
  set("PATH", folder_.file("bin"));
  sources_ = {.root = folder_.file("root"),
              .folder = folder_.file("runs"),
              .probe = {.bytes = std::size_t{64} << 20,
                        .seconds = 10,
                        .writers = 1,
                        // A good disk: a millisecond for each piece.
                        .clock = [now_s = 0.0]() mutable { return now_s += 1e-3; }},
              .files = disk_.get(),
              .environment =
                  [this](const char* name) {
                    const auto found = variables_.find(name);
                    return found == variables_.end() ? std::nullopt
                                                     : std::optional<std::string>(found->second);
                  },
              .build = {.version = "0.1.0",
                        .commit = "0123456789ab",
                        .compiler = "GNU 12.2.0, Release",
                        .backends = "cpu, cuda",
                        .gpu_architectures = "80-real 90a-real",
                        .mpi = "3.1",
                        .cudnn = "none"},
              .mpi = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4",
              .nccl = built("libwhole_nccl.so"),
              .devices = {good_device("1B"), good_device("43")},
              .measure = false,
              .answer_s = kPatienceS};
}

void PlantedMachine::install(const std::string& name, const std::string& script) const {
  const fs::path file = folder_.write("bin/" + name, "#!/bin/sh\n" + script);
  fs::permissions(file, fs::perms::owner_all | fs::perms::group_exec | fs::perms::group_read |
                            fs::perms::others_exec | fs::perms::others_read);
}

void PlantedMachine::uninstall(const std::string& name) const {
  fs::remove(folder_.file("bin/" + name));
}

void PlantedMachine::set_gpu(int gpu, const std::string& field, const std::string& value) {
  gpus_.at(static_cast<std::size_t>(gpu))[field] = value;
  write_nvidia_smi();
}

void PlantedMachine::set_processes(const std::string& lines) {
  processes_ = lines;
  write_nvidia_smi();
}

void PlantedMachine::forget_field(const std::string& field) {
  for (auto& gpu : gpus_) gpu.erase(field);
  write_nvidia_smi();
}

void PlantedMachine::write_nvidia_smi() const {
  std::string script = "case $1 in --query-compute-apps=*) echo '" + processes_ +
                       "'; exit 0;; esac\nvalue() {\n  case $1.$2 in\n";
  for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
    for (const auto& [field, value] : gpus_[gpu]) {
      script += "    " + std::to_string(gpu) + "." + field + ") v='" + value + "';;\n";
    }
  }
  script +=
      "    *) echo \"Field \\\"$2\\\" is not a valid field to query.\"; exit 2;;\n  esac\n}\n"
      "IFS=,\nfor gpu in ";
  for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu)
    script += (gpu == 0 ? "" : " ") + std::to_string(gpu);
  script +=
      "; do\n  line=\n  for field in ${1#--query-gpu=}; do\n    value $gpu $field\n"
      "    line=\"$line${line:+, }$v\"\n  done\n  echo \"$line\"\ndone\n";
  install("nvidia-smi", script);
}

Finding finding_of(const std::vector<Finding>& findings, std::string_view name) {
  const auto found = std::ranges::find(findings, name, &Finding::name);
  INFO("no finding is called " << name << ":\n" << to_string(findings));
  REQUIRE(found != findings.end());
  return *found;
}

}  // namespace strata::test
