// What the commands about a run have in common: the config, what the command line changes in it,
// and options of one form.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "command_line/number_range.h"
#include "strata/commands/commands.h"
#include "strata/config/config.h"
#include "strata/train/resume.h"

namespace strata {

/// What the command line says about a run, beside its config file.
struct RunArguments {
  std::string config;
  std::vector<std::string> sets;
  std::string output;
  std::string device_memory;
  std::string host_memory;
  bool overwrite = false;
  ResumeRequest resume;
  BenchOptions bench;
  SuiteOptions suite;
  std::string launcher;
  CompareOptions compare;
  PlanOptions plan;
  GenerationJob generation;
  TuneOptions tune;
};

/// Returns all assignments of the command line, those of options of their own last.
[[nodiscard]] std::vector<std::string> sets_of(const RunArguments& arguments);
/// Reads the run config with what the command line changes in it, and validates it.
[[nodiscard]] RunConfig load_config(const RunArguments& arguments, TrainingData training_data);

/// Declares a sub-command that reads a run config.
CLI::App& add_run_command(CLI::App& app, const std::string& name, const std::string& description,
                          RunArguments& arguments);
/// Declares where JSON goes.
CLI::Option& add_json(CLI::App& command, std::string& json);
/// Declares an option that takes a size in bytes.
void add_size(CLI::App& command, const char* name, std::string& size, const char* description);
/// Declares what is said of a load to generate; `job` has it if there is one.
void add_generation(CLI::App& command, const std::string& description, GenerationJob& said,
                    std::optional<GenerationJob>& job);
/// Declares an option that takes a number from 1 to `most`.
template <class Count>
CLI::Option* add_count(CLI::App& command, const char* name, Count& count, const char* description,
                       std::int64_t most = kMostCounted) {
  return command.add_option(name, count, description)
      ->check(whole_number(1, most))
      ->type_name("COUNT");
}

}  // namespace strata
