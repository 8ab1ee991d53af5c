// A suite names benchmarks: rows, each with a run config, what is changed in it, and how often it
// is measured. It is a JSON file, so that whoever has other machines or models writes one of their
// own; docs/benchmarks.md says what stands in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strata/base/fields.h"
#include "strata/base/kv_dtype.h"

namespace strata {

/// Random prompts that a row continues, as options of `bench --generate`.
struct SuiteGeneration {
  std::int64_t prompts = 64;
  std::int64_t prompt_tokens = 512;
  std::int64_t max_tokens = 128;
  std::optional<std::int64_t> batch;  ///< at once; absent: chosen
  KvDType kv_dtype = KvDType::kAuto;
  void fields(FieldList& f);
};

struct SuiteRow {
  std::string name;
  std::string title;
  std::filesystem::path config;               ///< as the program opens it
  std::vector<std::string> sets;              ///< "a.b=value", groups included, as --set gives them
  std::optional<SuiteGeneration> generation;  ///< absent: steps of training
  std::int64_t repeats = 0;
  double limit_minutes = 0;  ///< after which a run counts as failed
};

struct Suite {
  std::string name;
  std::string title;
  std::filesystem::path file;
  std::vector<SuiteRow> rows;
};

/// Reads a suite. Throws IoError if the file cannot be read, and ConfigError that names file, row
/// and key for everything that is wrong with it; configs are not looked at.
[[nodiscard]] Suite read_suite(const std::filesystem::path& file);
/// Leaves the named rows of a suite, in its order. Throws ConfigError for a name that it lacks.
void select_rows(Suite& suite, std::span<const std::string> names);

/// Returns what stands behind the program's name to measure a row alone.
[[nodiscard]] std::vector<std::string> arguments_of(const SuiteRow& row);
/// Returns words as a line that a shell reads back to them.
[[nodiscard]] std::string shell_line(std::span<const std::string> words);

}  // namespace strata
