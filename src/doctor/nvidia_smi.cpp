// All fields are asked for at once. Where a driver is too old or too new for one of them,
// nvidia-smi refuses the whole question and names the field, which is then left out.

#include "doctor/nvidia_smi.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <sstream>
#include <system_error>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/run_program.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

/// The values of a GPU by field, without those that are unknown.
using Values = std::map<std::string, std::string>;

/// Newer drivers know these by another name.
constexpr const char* kClockReasonsField = "clocks_throttle_reasons.active";
constexpr const char* kNewerClockReasons = "clocks_event_reasons.active";
constexpr const char* kFields[] = {"index",
                                   "uuid",
                                   "name",
                                   "pci.bus_id",
                                   "driver_version",
                                   "compute_cap",
                                   "memory.total",
                                   "memory.used",
                                   "utilization.gpu",
                                   "compute_mode",
                                   "mig.mode.current",
                                   "ecc.errors.uncorrected.volatile.total",
                                   kClockReasonsField,
                                   "power.limit",
                                   "power.default_limit",
                                   "pcie.link.width.current",
                                   "pcie.link.width.max",
                                   "pcie.link.gen.max"};
std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!trimmed(line).empty()) lines.push_back(trimmed(line));
  }
  return lines;
}

/// Returns `most` values of a line; the last one has the rest of it.
std::vector<std::string> values_of(const std::string& line, std::size_t most) {
  std::vector<std::string> values;
  std::size_t begin = 0;
  while (values.size() + 1 < most) {
    const std::size_t end = line.find(',', begin);
    if (end == std::string::npos) break;
    values.push_back(trimmed(line.substr(begin, end - begin)));
    begin = end + 1;
  }
  values.push_back(trimmed(line.substr(begin)));
  return values;
}

bool is_known(const std::string& value) {
  return !value.empty() && value.front() != '[' && value != "N/A" && value != "Unknown Error";
}

class NvidiaSmi {
 public:
  NvidiaSmi(std::string program, double answer_s)
      : program_(std::move(program)), answer_s_(answer_s) {}

  /// Returns the values of these fields for each GPU, or nothing; `failure` then says why.
  std::vector<Values> ask(const std::vector<std::string>& fields, std::string& failure) const {
    std::string list;
    for (const std::string& field : fields) list += (list.empty() ? "" : ",") + field;
    const ProgramAnswer answer =
        run_program({program_, "--query-gpu=" + list, "--format=csv,noheader,nounits"}, answer_s_);
    failure = answer.failure;
    if (!failure.empty()) {
      const std::vector<std::string> said = lines_of(answer.text);
      if (!said.empty()) failure = said.front() + " (" + failure + ")";
      return {};
    }
    std::vector<Values> gpus;
    for (const std::string& line : lines_of(answer.text)) {
      const std::vector<std::string> values = values_of(line, fields.size());
      if (values.size() != fields.size()) continue;  // a remark, such as "No devices were found"
      Values& gpu = gpus.emplace_back();
      for (std::size_t i = 0; i < fields.size(); ++i) {
        if (is_known(values[i])) gpu[fields[i]] = values[i];
      }
    }
    return gpus;
  }

  /// Returns all that it tells of each GPU.
  std::vector<Values> ask_all(std::string& failure) const {
    std::vector<std::string> fields(std::begin(kFields), std::end(kFields));
    while (true) {
      std::vector<Values> gpus = ask(fields, failure);
      if (failure.empty()) return gpus;
      const auto refused = std::ranges::find_if(fields, [&](const std::string& field) {
        return failure.find('"' + field + '"') != std::string::npos;
      });
      if (refused == fields.end()) return {};
      if (*refused == kClockReasonsField) {
        *refused = kNewerClockReasons;
      } else {
        fields.erase(refused);
      }
    }
  }

  /// Adds the processes that compute on the GPUs.
  void add_processes(std::vector<GpuFacts>& gpus) const {
    const ProgramAnswer answer =
        run_program({program_, "--query-compute-apps=gpu_uuid,pid,used_memory,process_name",
                     "--format=csv,noheader,nounits"},
                    answer_s_);
    for (const std::string& line : lines_of(answer.text)) {
      const std::vector<std::string> values = values_of(line, 4);
      if (values.size() != 4) continue;
      const auto gpu = std::ranges::find(gpus, values[0], &GpuFacts::uuid);
      if (gpu == gpus.end() || values[1] == std::to_string(::getpid())) continue;
      gpu->processes.push_back({.pid = values[1],
                                .memory = is_known(values[2]) ? values[2] + " MiB" : "unknown",
                                .name = values[3]});
    }
  }

 private:
  std::string program_;
  double answer_s_;
};

std::string text_in(const Values& values, const std::string& field) {
  const auto found = values.find(field);
  return found == values.end() ? std::string() : found->second;
}

/// Returns a number, without what follows it.
std::optional<double> number_of_field(const Values& values, const std::string& field) {
  const std::string text = text_in(values, field);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

std::optional<int> whole_in(const Values& values, const std::string& field) {
  const std::optional<double> number = number_of_field(values, field);
  if (!number || std::abs(*number) > 1e9) return std::nullopt;
  return static_cast<int>(std::lround(*number));
}

std::optional<std::size_t> mebibytes_in(const Values& values, const std::string& field) {
  const std::optional<double> number = number_of_field(values, field);
  if (!number || *number < 0) return std::nullopt;
  return static_cast<std::size_t>(*number) * kMiB;
}

/// Returns bits that are written as "0x0000000000000004".
std::optional<std::uint64_t> bits_in(const Values& values) {
  for (const char* const field : {kClockReasonsField, kNewerClockReasons}) {
    const std::string text = text_in(values, field);
    if (!text.starts_with("0x")) continue;
    std::uint64_t bits = 0;
    const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
    if (error == std::errc{}) return bits;
  }
  return std::nullopt;
}

GpuFacts facts_of(const Values& values, const fs::path& root) {
  GpuFacts gpu{.index = text_in(values, "index"),
               .uuid = text_in(values, "uuid"),
               .name = text_in(values, "name"),
               .pci_bus_id = short_bus_id(text_in(values, "pci.bus_id")),
               .driver = text_in(values, "driver_version"),
               .compute_mode = text_in(values, "compute_mode"),
               .divided = text_in(values, "mig.mode.current") == "Enabled"};
  if (const auto capability = number_of_field(values, "compute_cap"))
    gpu.capability = static_cast<int>(std::lround(10 * *capability));
  gpu.memory_bytes = mebibytes_in(values, "memory.total");
  gpu.used_bytes = mebibytes_in(values, "memory.used");
  gpu.busy_percent = whole_in(values, "utilization.gpu");
  if (const auto errors = whole_in(values, "ecc.errors.uncorrected.volatile.total"))
    gpu.memory_errors = *errors;
  gpu.clock_reasons = bits_in(values);
  gpu.power_limit_w = number_of_field(values, "power.limit");
  gpu.default_power_limit_w = number_of_field(values, "power.default_limit");
  gpu.link_width = whole_in(values, "pcie.link.width.current");
  gpu.most_width = whole_in(values, "pcie.link.width.max");
  gpu.most_generation = whole_in(values, "pcie.link.gen.max");
  gpu.numa_node = gpu.pci_bus_id.empty() ? -1 : numa_node_of(gpu.pci_bus_id, root);
  gpu.near = cores_of_node(gpu.numa_node, root);
  return gpu;
}

}  // namespace

std::optional<fs::path> find_program(std::string_view name, const Environment& environment) {
  std::istringstream folders(environment("PATH").value_or(""));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path file = fs::path(folder.empty() ? "." : folder) / name;
    std::error_code error;
    if (fs::is_regular_file(file, error) && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return std::nullopt;
}

std::string short_bus_id(std::string_view bus_id) {
  constexpr std::size_t kDigits = 12;  // 0000:1B:00.0
  return std::string(bus_id.substr(bus_id.size() > kDigits ? bus_id.size() - kDigits : 0));
}

GpuSurvey ask_nvidia_smi(const Environment& environment, const fs::path& root, double answer_s) {
  const std::optional<fs::path> program = find_program("nvidia-smi", environment);
  if (!program) return {.problem = "there is no nvidia-smi in PATH"};
  GpuSurvey survey{.installed = true};
  const NvidiaSmi smi(program->string(), answer_s);
  for (const Values& values : smi.ask_all(survey.problem)) {
    survey.gpus.push_back(facts_of(values, root));
  }
  if (!survey.gpus.empty()) smi.add_processes(survey.gpus);
  return survey;
}

}  // namespace strata
