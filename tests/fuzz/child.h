// Runs a function in a forked child of this process, which has everything loaded already: a case
// takes a few milliseconds, also under sanitizers, where starting the program anew takes a hundred.
// The parent must have no other threads. What the child writes comes back as text, and a child
// that takes too long or too much memory is ended.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

namespace strata::fuzz {

/// What a case may take. Cases take a fraction of a second: what reaches the first three is a hang,
/// also on a machine that is slow and has other work.
struct Limits {
  double processor_s = 180;  ///< of all threads together
  double idle_s = 300;       ///< without any processor time: it waits for ever
  double wall_s = 1200;      ///< in all
  double training_s = 1;     ///< processor time after which a run that trains is stopped
  std::size_t resident_bytes = 1ul << 30;
};

/// How a child ended.
struct Ending {
  enum class Kind { kExit, kSignal, kHang, kMemory };
  Kind kind = Kind::kExit;
  int code = 0;          ///< the exit code, or the signal's number
  bool stopped = false;  ///< it was training, and ended after it was told to
  bool cut = false;      ///< it was told again, which ends it wherever it is
  double wall_s = 0;
  double processor_s = 0;
  std::size_t peak_bytes = 0;
  std::string text;  ///< standard output and error, up to 1 MiB
};

/// What to run, and where.
struct Job {
  std::filesystem::path folder;    ///< the child's working directory
  std::filesystem::path output{};  ///< takes the standard output instead of the text, if given
  Limits limits{};
  std::function<bool()> training;  ///< whether the child has begun to train; may be empty
  std::function<int()> body;       ///< its result is the exit code
};

[[nodiscard]] Ending run_child(const Job& job);

/// Gives up root for good, where this process has it: cases then meet files that they may not
/// read, and harm nothing outside of their folder.
void drop_privileges();

}  // namespace strata::fuzz
