// strata_fuzz: runs strata on configs and files that are mutated, thousands of cases in as many
// forked children, and tells which did not end as they may. docs/debugging.md says how it is used.

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fuzz/cases.h"
#include "fuzz/child.h"
#include "fuzz/verdict.h"
#include "strata/base/process.h"
#include "strata/command_line/command_line.h"
#include "support/places.h"

// What sanitizers are told where nothing in the environment says otherwise. Looking for leaks takes
// twice the time of a case, and the tests do that; a large quarantine makes forks slow, and where
// memory was allocated takes a third of the time: malloc_context_size=30 shows it for one case.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): the name is asked for
extern "C" const char* __asan_default_options() {
  return "exitcode=99:detect_leaks=0:quarantine_size_mb=8:malloc_context_size=1";
}
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): the name is asked for
extern "C" const char* __ubsan_default_options() { return "exitcode=99:print_stacktrace=1"; }

namespace strata::fuzz {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string kind;  ///< one of kKinds
  std::uint64_t seed = 1;
  std::uint64_t first = 0;
  std::uint64_t cases = 1000;
  bool alone = false;  ///< one case, shown whole
  std::size_t workers = std::max(1u, std::thread::hardware_concurrency());
  std::string keep;  ///< folder for the files of cases that fail
};

/// What is mutated, and what runs a case.
struct Kind {
  std::string_view name;
  Case (*make)(Dice& dice, const Material& material);
  int (*run)(const std::vector<std::string>& arguments);
};

int run_program(const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"strata"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return strata::run_command_line(static_cast<int>(words.size()), pointers.data());
}

constexpr std::array<Kind, 6> kKinds{
    {{"configs", &make_config_case, &run_program},
     {"files", &make_file_case, &run_program},
     {"templates", &make_template_case,
      [](const std::vector<std::string>&) { return render_template(); }},
     {"tokenizers", &make_tokenizer_case, &run_program},
     {"records", &make_record_case, &run_program},
     {"tokens", &make_token_case, &run_program}}};

const Kind* find_kind(std::string_view name) {
  const auto* const found = std::find_if(kKinds.begin(), kKinds.end(),
                                         [&](const Kind& kind) { return kind.name == name; });
  return found == kKinds.end() ? nullptr : found;
}

constexpr const char* kUsage =
    "usage: strata_fuzz configs|files|templates|tokenizers|records|tokens [--seed S] [--cases N] "
    "[--only CASE] [--workers N] "
    "[--keep FOLDER]";

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) throw std::runtime_error(kUsage);
  return value;
}

Options parse(std::span<char*> arguments) {
  Options options;
  if (arguments.size() % 2 == 1) throw std::runtime_error(kUsage);
  options.kind = arguments[1];
  if (find_kind(options.kind) == nullptr) throw std::runtime_error(kUsage);
  for (std::size_t i = 2; i < arguments.size(); i += 2) {
    const std::string_view key(arguments[i]);
    const std::string_view value(arguments[i + 1]);
    if (key == "--seed") {
      options.seed = number(value);
    } else if (key == "--cases") {
      options.cases = number(value);
    } else if (key == "--only") {
      options.first = number(value);
      options.alone = true;
    } else if (key == "--workers") {
      options.workers = std::max<std::size_t>(1, number(value));
    } else if (key == "--keep") {
      options.keep = value;
    } else {
      throw std::runtime_error(kUsage);
    }
  }
  if (options.alone) options.cases = options.workers = 1;
  return options;
}

/// What the workers have found together, in memory that they share.
struct Tally {
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> failures{0};
  std::atomic<std::uint64_t> stopped{0};
  std::array<std::atomic<std::uint64_t>, 5> codes{};
  std::atomic<std::uint64_t> longest_ms{0};  ///< processor time
  std::atomic<std::uint64_t> longest_case{0};
  std::atomic<std::uint64_t> largest_kib{0};
  std::atomic<std::uint64_t> largest_case{0};
};

void raise(std::atomic<std::uint64_t>& most, std::atomic<std::uint64_t>& which, std::uint64_t value,
           std::uint64_t number) {
  std::uint64_t before = most;
  while (value > before && !most.compare_exchange_weak(before, value)) {
  }
  if (value > before) which = number;
}

void write_file(const fs::path& folder, const CaseFile& file) {
  const fs::path path = folder / file.name;
  fs::create_directories(path.parent_path());
  switch (file.kind) {
    case CaseFile::Kind::kFile: std::ofstream(path, std::ios::binary) << file.content; break;
    case CaseFile::Kind::kFolder: fs::create_directories(path); break;
    case CaseFile::Kind::kFifo:
      if (mkfifo(path.c_str(), 0600) != 0) throw std::runtime_error("fuzz: mkfifo failed");
      break;
    case CaseFile::Kind::kLink: fs::create_symlink(file.content, path); break;
  }
  const bool regular = file.kind == CaseFile::Kind::kFile;  // a link leads out of the folder
  if (regular && !file.readable) fs::permissions(path, fs::perms::none);
}

/// Whether a run in `folder` has begun to train. `bench` does not say, and has the same start.
bool trains(const Case& c, const fs::path& folder) {
  if (!c.arguments.empty() && c.arguments[0] == "bench") return true;
  std::error_code error;
  // What it looks at may go meanwhile, which ends the iteration.
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code gone;
    const std::uintmax_t bytes =
        entry->path().filename() == "metrics.jsonl" ? entry->file_size(gone) : 0;
    if (!gone && bytes > 0) return true;
  }
  return false;
}

/// Makes, runs and judges cases in a folder of its own.
class Worker {
 public:
  Worker(const Options& options, const Material& material, fs::path folder, Tally& tally)
      : options_(options), material_(material), folder_(std::move(folder)), tally_(tally) {}

  void work() {
    while (true) {
      const std::uint64_t at = tally_.next++;
      if (at >= options_.cases) return;
      run(options_.first + at);
    }
  }

 private:
  void run(std::uint64_t number) {
    Dice dice(options_.seed, number);
    const Kind& kind = *find_kind(options_.kind);
    const Case c = kind.make(dice, material_);
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    for (const CaseFile& file : c.files) write_file(folder_, file);
    const Listing before = list(folder_);
    Job job{.folder = folder_,
            .training = [&] { return trains(c, folder_); },
            .body = [&] { return ended(kind.run(c.arguments), number); }};
    if (c.full_output) job.output = "/dev/full";
    const Ending ending = run_child(job);
    const std::string wrong = judge(c, material_.keys, ending, before, list(folder_));
    count(ending, number);
    if (wrong.empty() && !options_.alone) return;
    if (!wrong.empty()) ++tally_.failures;
    show(c, ending, number, wrong);
    if (!options_.keep.empty()) keep(c, number);
  }

  /// Ends most children here: what follows a program's end does not depend on the case, and under
  /// AddressSanitizer touches all pages of its globals.
  [[nodiscard]] int ended(int code, std::uint64_t number) const {
    constexpr std::uint64_t kWhole = 16;  // one of so many ends as programs do
    if (options_.alone || number % kWhole == 0) return code;
    std::cout.flush();
    std::fflush(nullptr);
    _exit(code);
  }

  void count(const Ending& ending, std::uint64_t number) {
    raise(tally_.longest_ms, tally_.longest_case,
          static_cast<std::uint64_t>(1000 * ending.processor_s), number);
    raise(tally_.largest_kib, tally_.largest_case, ending.peak_bytes >> 10, number);
    if (ending.stopped) {
      ++tally_.stopped;
    } else if (ending.kind == Ending::Kind::kExit && ending.code >= 0 && ending.code < 5) {
      ++tally_.codes[static_cast<std::size_t>(ending.code)];
    }
  }

  void show(const Case& c, const Ending& ending, std::uint64_t number, const std::string& wrong) {
    constexpr std::size_t kShown = 4000;
    std::string text = "case " + std::to_string(number) + ": " +
                       (wrong.empty() ? std::string("ended as it may") : "FAILED: " + wrong) +
                       " (code " + std::to_string(ending.code) + ", " +
                       std::to_string(static_cast<int>(1000 * ending.processor_s)) + " ms, " +
                       std::to_string(ending.peak_bytes >> 20) + " MiB)\n  strata_fuzz " +
                       options_.kind + " --seed " + std::to_string(options_.seed) + " --only " +
                       std::to_string(number) + " --keep FOLDER\n  arguments:";
    for (const std::string& argument : c.arguments) text += ' ' + argument.substr(0, 200);
    text += '\n' + (options_.alone ? ending.text : ending.text.substr(0, kShown)) + '\n';
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  void keep(const Case& c, std::uint64_t number) const {
    const fs::path to = fs::path(options_.keep) / (options_.kind + '-' + std::to_string(number));
    fs::remove_all(to);
    for (const CaseFile& file : c.files) write_file(to, file);
    std::ofstream command(to / "command.txt", std::ios::binary);
    for (const std::string& argument : c.arguments) command << argument << '\n';
  }

  const Options& options_;
  const Material& material_;
  fs::path folder_;
  Tally& tally_;
};

/// Where cases run: in memory, if the system has such a place.
fs::path make_scratch() {
  const fs::path base = fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
  std::string name = base / "strata_fuzz_XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("fuzz: mkdtemp failed");
  fs::permissions(name, fs::perms::all);
  return name;
}

/// Cases see nothing of the caller's launcher, cache or temporary folder.
void clean_environment(const fs::path& scratch) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "SLURM_PROCID"}) {
    unsetenv(name);
  }
  for (const char* name : {"HOME", "TMPDIR", "XDG_CACHE_HOME"}) {
    setenv(name, scratch.c_str(), 1);
  }
}

void print(const Tally& tally, const Options& options, double seconds) {
  std::printf("%s, seed %llu: %llu cases in %.0f s; exit codes", options.kind.c_str(),
              static_cast<unsigned long long>(options.seed),
              static_cast<unsigned long long>(options.cases), seconds);
  for (std::size_t code = 0; code < tally.codes.size(); ++code) {
    std::printf(" %zu: %llu,", code, static_cast<unsigned long long>(tally.codes[code].load()));
  }
  std::printf(
      " stopped while training: %llu; longest %llu ms (case %llu), largest %llu MiB (case "
      "%llu); FAILED: %llu\n",
      static_cast<unsigned long long>(tally.stopped.load()),
      static_cast<unsigned long long>(tally.longest_ms.load()),
      static_cast<unsigned long long>(tally.longest_case.load()),
      static_cast<unsigned long long>(tally.largest_kib.load() >> 10),
      static_cast<unsigned long long>(tally.largest_case.load()),
      static_cast<unsigned long long>(tally.failures.load()));
}

int fuzz(const Options& options) {
  const double begin_s = steady_seconds();
  const fs::path scratch = make_scratch();
  const Material material = load_material(test::source_folder(), scratch);
  clean_environment(scratch);
  void* shared =
      mmap(nullptr, sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::runtime_error("fuzz: mmap failed");
  Tally& tally = *new (shared) Tally;
  std::fflush(nullptr);
  for (std::size_t i = 0; i < options.workers; ++i) {
    const pid_t pid = fork();
    if (pid < 0) throw std::runtime_error("fuzz: fork failed");
    if (pid > 0) continue;
    drop_privileges();
    Worker(options, material, scratch / ("worker" + std::to_string(i)), tally).work();
    _exit(0);
  }
  bool died = false;
  for (std::size_t i = 0; i < options.workers; ++i) {
    int status = 0;
    (void)wait(&status);
    died = died || status != 0;
  }
  print(tally, options, steady_seconds() - begin_s);
  fs::remove_all(scratch);
  if (died) throw std::runtime_error("fuzz: a worker died");
  return tally.failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace strata::fuzz

int main(int argc, char** argv) {
  try {
    return strata::fuzz::fuzz(strata::fuzz::parse({argv, static_cast<std::size_t>(argc)}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
