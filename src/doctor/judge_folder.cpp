// Checkpoints need room for two at a time, since the older one goes when the newer one is whole.

#include "doctor/judge.h"
#include "doctor/worsen.h"
#include "strata/base/bytes.h"
#include "strata/base/log.h"

namespace strata {

namespace {

constexpr std::uint64_t kBarelyFree = kGiB;
/// Two checkpoints of a 1.3B model at 14 bytes for each parameter are 34 GiB.
constexpr std::uint64_t kLittleFree = 34 * kGiB;
/// At this rate a 7B's checkpoint of 88 GiB takes a quarter of an hour.
constexpr double kSlowGbs = 0.1;

}  // namespace

Finding judge_folder(const FolderFacts& facts) {
  Finding finding{.name = "disk", .found = facts.folder};
  if (facts.free_bytes) finding.found += ": " + format_bytes(*facts.free_bytes) + " free";
  if (!facts.problem.empty()) {
    worsen(finding, Verdict::kBad,
           facts.problem + "; make room or name another folder with --folder and run.output");
    return finding;
  }
  finding.found += fmt::format(", writes {:.2f} GB/s", facts.write_gbs);
  const std::uint64_t free = facts.free_bytes.value_or(kLittleFree);
  if (free < kBarelyFree) {
    worsen(finding, Verdict::kBad, "no checkpoint fits: make room, or name another folder");
  } else if (free < kLittleFree) {
    worsen(finding, Verdict::kWarn,
           "two checkpoints of a model of 1.3 billion parameters do not fit: make room, keep fewer "
           "(checkpoint.keep), or name another folder");
  }
  if (facts.write_gbs < kSlowGbs) {
    worsen(
        finding, Verdict::kWarn,
        "checkpoints of large models take long: write to a local disk (run.output), or save more "
        "rarely (checkpoint.every_steps)");
  }
  return finding;
}

}  // namespace strata
