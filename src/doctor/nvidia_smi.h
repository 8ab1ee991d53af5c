// Asks nvidia-smi for the GPUs of this machine: it comes with every driver, answers without a
// context on the GPU, and also where this program was built without CUDA.

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/machine_facts.h"
#include "strata/comm/launcher.h"

namespace strata {

/// Returns the file that PATH finds for a program, or nothing.
[[nodiscard]] std::optional<std::filesystem::path> find_program(std::string_view name,
                                                                const Environment& environment);

/// Returns what nvidia-smi says. Fields that a driver does not know, and values such as "[N/A]" and
/// "[Not Supported]", are unknown facts. NUMA nodes are read below `root`. Blocks until nvidia-smi
/// has answered, `answer_s` seconds at most for each question; throws nothing.
[[nodiscard]] GpuSurvey ask_nvidia_smi(const Environment& environment,
                                       const std::filesystem::path& root, double answer_s);

/// Returns a PCI address as CUDA and Linux write it, "0000:1B:00.0"; nvidia-smi's domain has eight
/// digits.
[[nodiscard]] std::string short_bus_id(std::string_view bus_id);

}  // namespace strata
