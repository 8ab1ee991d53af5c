// A machine made of files: what Linux, nvidia-smi and mpirun would say of a good one. Tests of the
// doctor change one file, program or variable and look whether that is found.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "strata/doctor/examine_machine.h"
#include "support/scratch_folder.h"

namespace strata::test {

class PlantedDisk;

/// Two H200 in a host of 16 cores, two NUMA nodes and 512 GiB, and a program that was built for
/// them with Open MPI. Everything is well until a test changes it.
class PlantedMachine {
 public:
  PlantedMachine();
  ~PlantedMachine();
  PlantedMachine(const PlantedMachine&) = delete;
  PlantedMachine& operator=(const PlantedMachine&) = delete;

  /// Writes a file below the machine's root folder.
  void write(const std::string& name, const std::string& text) const {
    folder_.write("root/" + name, text);
  }
  /// Replaces a program that PATH finds by a shell script.
  void install(const std::string& name, const std::string& script) const;
  void uninstall(const std::string& name) const;
  /// Sets what nvidia-smi says of a GPU.
  void set_gpu(int gpu, const std::string& field, const std::string& value);
  /// Sets lines of nvidia-smi's list of processes.
  void set_processes(const std::string& lines);
  /// Makes nvidia-smi refuse a field, as drivers do that do not know it.
  void forget_field(const std::string& field);
  /// Sets the room on the disk. Files are made, but what is written to them goes nowhere.
  void set_free_bytes(std::uint64_t bytes);
  /// Sets a variable of the environment.
  void set(const std::string& name, const std::string& value) { variables_[name] = value; }

  [[nodiscard]] MachineSources& sources() { return sources_; }
  [[nodiscard]] const ScratchFolder& folder() const { return folder_; }
  [[nodiscard]] std::vector<Finding> examine() const { return examine_machine(sources_); }

 private:
  void write_nvidia_smi() const;

  ScratchFolder folder_;
  std::unique_ptr<PlantedDisk> disk_;
  std::vector<std::map<std::string, std::string>> gpus_;
  std::string processes_;
  std::map<std::string, std::string> variables_;
  MachineSources sources_;
};

/// Returns the finding of this name; fails the test if there is none.
[[nodiscard]] Finding finding_of(const std::vector<Finding>& findings, std::string_view name);

}  // namespace strata::test
