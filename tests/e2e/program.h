// Starts the program as users do and reads what it leaves: what the tests of the program share.

#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"
#include "support/sanitized.h"

namespace strata::test {

namespace fs = std::filesystem;

/// Returns whether libraries cannot be loaded into the program (LD_PRELOAD), and then says that a
/// test is skipped: a sanitizer must be the first library.
inline bool skips_preload() {
  if (kSanitized) WARN("skipped: a sanitizer must be the first library");
  return kSanitized;
}

/// A folder of a test's own that is empty at its beginning and gone at its end.
class Folder {
 public:
  Folder() {
    std::string name = fs::temp_directory_path() / "strata_e2e_XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;  // who was killed may still be writing
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

/// Gives what the tests start caches of its own, so that nothing depends on what was measured on
/// the machine before, or is being measured by others.
class OwnCaches {
 public:
  OwnCaches() {
    std::string name = fs::temp_directory_path() / "strata_caches_XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) return;
    path_ = name;
    ::setenv("XDG_CACHE_HOME", name.c_str(), 1);
  }
  ~OwnCaches() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  OwnCaches(const OwnCaches&) = delete;
  OwnCaches& operator=(const OwnCaches&) = delete;

 private:
  fs::path path_;
};
inline const OwnCaches kOwnCaches;

/// Ends a command that hangs, with the exit code kHangCode. No command takes as long on the slowest
/// machine.
inline const std::string kUnlessItHangs = "timeout 1200 ";
inline constexpr int kHangCode = 124;

struct Outcome {
  int code = -1;
  std::string text;  ///< standard output and error
};

inline std::string read_file(const std::string& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline Outcome run(const Folder& folder, const std::string& command) {
  const std::string log = folder / "output.txt";
  const int status = std::system((command + " > " + log + " 2>&1 < /dev/null").c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(log)};
}

inline Outcome strata(const Folder& folder, const std::string& arguments) {
  return run(folder, std::string(strata_program()) + " " + arguments);
}

/// Runs a command that must succeed.
inline Outcome ended_well(const Folder& folder, const std::string& arguments) {
  Outcome done = strata(folder, arguments);
  INFO(arguments << "\n" << done.text);
  REQUIRE(done.code == 0);
  return done;
}

/// Plans one of configs/ as on a machine without a GPU.
inline Outcome plan(const Folder& folder, const std::string& arguments) {
  return run(folder, "CUDA_VISIBLE_DEVICES= " + strata_program() + " plan " + configs_folder() +
                         "/" + arguments);
}

/// Settings of a model of 4 layers that computes next to nothing: what a test of the program takes
/// is then the program's start and its files.
inline const std::string kNarrow = "--set model.hidden_size=16 --set model.intermediate_size=48 ";

/// Arguments of a short run of the model of configs/tiny-cpu.json, for tests that know its sizes.
inline std::string train_wide(const Folder& folder, const std::string& name,
                              const std::string& more) {
  return "train " + configs_folder() + "/tiny-cpu.json --output " + (folder / name) +
         " --set run.steps=4 --set optimizer.warmup_steps=1 --set data.sequence_length=32 " + more;
}

/// Arguments of the same run of a narrow model.
inline std::string train_tiny(const Folder& folder, const std::string& name,
                              const std::string& more) {
  return train_wide(folder, name, kNarrow + more);
}

/// Makes token files of a text; returns the settings that train on them.
inline std::string tokenize_text(const Folder& folder) {
  fs::create_directories(folder / "text");
  for (int i = 0; i < 40; ++i) {
    std::ofstream out(folder / ("text/" + std::to_string(i) + ".txt"));
    for (int j = 0; j < 8; ++j) out << "line " << j << " of document " << i << ": some words\n";
  }
  const Outcome tokenized = strata(folder, "tokenize " + (folder / "text") + " --output " +
                                               (folder / "train.bin") + " --validation-output " +
                                               (folder / "val.bin") + " --validation-fraction 0.2");
  INFO(tokenized.text);
  REQUIRE(tokenized.code == 0);
  return "--set data.synthetic=false --set data.train=" + (folder / "train.bin") +
         " --set data.validation=" + (folder / "val.bin");
}

inline std::vector<nlohmann::json> metrics(const std::string& run_folder) {
  std::ifstream in(run_folder + "/metrics.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(parse_json<nlohmann::json>(line));
  return lines;
}

inline std::vector<double> losses(const std::string& run_folder) {
  std::vector<double> values;
  for (const nlohmann::json& line : metrics(run_folder)) {
    if (line["event"] == "step") values.push_back(line["loss"]);
  }
  return values;
}

#ifdef STRATA_MPIEXEC
/// The start of a command of ranks on this machine. Open MPI leaks, which is not the test's
/// concern.
inline const std::string kMpiExec =
    kUnlessItHangs + "env ASAN_OPTIONS=detect_leaks=0 " STRATA_MPIEXEC " ";

/// Returns the start of a command that starts the program on so many ranks.
inline std::string on_ranks(int ranks) {
  return kMpiExec + "-n " + std::to_string(ranks) + " " + strata_program() + " ";
}

inline Outcome strata_on_ranks(const Folder& folder, int ranks, const std::string& arguments) {
  return run(folder, on_ranks(ranks) + arguments);
}
#endif

}  // namespace strata::test
