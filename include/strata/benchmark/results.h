// The results of a suite as a file: where and by what they were measured, and for each row every
// run as `bench --json` wrote it. The file is written anew after each run, whole, so that it can be
// read, compared and gone on with whenever the job was killed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/fields.h"
#include "strata/benchmark/figures.h"

namespace strata {

/// Where figures come from. What nobody could tell is absent.
struct Provenance {
  std::string version;
  std::string commit;
  std::string date;  ///< when the suite was begun, UTC
  std::string command;
  std::string launcher;  ///< what starts the ranks of each row; empty: they have one
  std::optional<std::string> host;
  std::optional<std::string> system;  ///< kernel and its release
  std::optional<std::string> cpu;
  std::optional<std::int64_t> cores;  ///< that this process may use
  std::optional<std::int64_t> host_memory_bytes;
  std::optional<std::vector<std::string>> gpus;  ///< name, memory and power limit of each
  std::optional<std::string> driver;
  void fields(FieldList& f);
};

/// One run of a row: what `bench` wrote, or why it wrote nothing.
struct RunRecord {
  std::string date;  ///< when it was begun, UTC
  double wall_s = 0;
  int exit_code = 0;
  std::string error;  ///< empty if and only if there are figures
  std::string json;   ///< as `bench --json` wrote it
  std::optional<BenchFigures> figures;
};

struct RowRecord {
  std::string name;
  std::string title;
  std::string command;  ///< that measures it alone
  std::int64_t repeats = 0;
  std::vector<FieldText> config;  ///< every key of the run config, as it was read
  std::vector<RunRecord> runs;

  /// Returns the figures of all runs that have some, or nothing.
  [[nodiscard]] std::optional<RowFigures> figures() const;
  /// Returns the last run without figures, or null.
  [[nodiscard]] const RunRecord* failure() const;
  /// Returns whether another run would fail as the last one did: the config is refused, or memory
  /// does not hold it.
  [[nodiscard]] bool refused() const;
};

struct SuiteResults {
  std::string suite;  ///< its name; of the file of a single bench empty
  std::string title;
  Provenance provenance;
  std::vector<RowRecord> rows;
};

/// Returns the file's text.
[[nodiscard]] std::string to_json(const SuiteResults& results);
/// Reads what to_json() wrote, or the JSON of a single bench, which becomes one run of a row named
/// "bench". Members that are not known are left out. Throws IoError if there is no such file, and
/// ConfigError that names file, row and key for one that is something else.
[[nodiscard]] SuiteResults read_results(const std::filesystem::path& file);

/// Returns the paths at which what `provenance` tells of program and machine differs: not date and
/// command, which differ in any two.
[[nodiscard]] std::vector<std::string> differing_provenance(const Provenance& a,
                                                            const Provenance& b);

/// Returns this moment as dates of results are written: "2026-11-25T10:00:00Z".
[[nodiscard]] std::string utc_now();

}  // namespace strata
