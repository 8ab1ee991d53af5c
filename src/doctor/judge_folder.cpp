// Checkpoints need room for one more than are kept, since an older one goes when the newer one is
// whole.

#include <cstdint>

#include "doctor/judge.h"
#include "doctor/worsen.h"
#include "strata/base/bytes.h"
#include "strata/base/log.h"
#include "strata/base/text.h"

namespace strata {

namespace {

constexpr std::uint64_t kBarelyFree = kGiB;
/// Two checkpoints of a 1.3B model at 14 bytes for each parameter are 34 GiB.
constexpr std::uint64_t kLittleFree = 34 * kGiB;
/// At this rate a 7B's checkpoint of 88 GiB takes a quarter of an hour.
constexpr double kSlowGbs = 0.1;

/// Judges the room by what is known of runs in general.
void judge_room(Finding& finding, std::uint64_t free) {
  if (free < kBarelyFree) {
    worsen(finding, Verdict::kBad, "no checkpoint fits: make room, or name another folder");
  } else if (free < kLittleFree) {
    worsen(finding, Verdict::kWarn,
           "two checkpoints of a model of 1.3 billion parameters do not fit: make room, keep fewer "
           "(checkpoint.keep), or name another folder");
  }
}

/// Judges it by what one run saves.
void judge_room(Finding& finding, std::uint64_t free, const SavedBytes& saves, double write_gbs) {
  finding.found += fmt::format(
      ", a checkpoint takes {} and {}, all that are kept {}", format_bytes(saves.one),
      format_duration(static_cast<double>(saves.one) / 1e9 / write_gbs), format_bytes(saves.all));
  if (free < saves.one) {
    worsen(finding, Verdict::kBad,
           "no checkpoint of this run fits: make room, or name another folder (run.output)");
  } else if (free < saves.all) {
    worsen(finding, Verdict::kWarn,
           "not all that are kept fit: make room, keep fewer (checkpoint.keep, weights_keep), or "
           "name another folder (run.output)");
  }
}

}  // namespace

Finding judge_folder(const FolderFacts& facts, const std::optional<SavedBytes>& saves) {
  Finding finding{.name = "disk", .found = facts.folder};
  if (facts.free_bytes) finding.found += ": " + format_bytes(*facts.free_bytes) + " free";
  if (!facts.problem.empty()) {
    worsen(finding, Verdict::kBad,
           facts.problem + "; another folder is named by --folder and run.output");
    return finding;
  }
  finding.found += fmt::format(", writes {:.2f} GB/s", facts.write_gbs);
  if (saves) {
    judge_room(finding, facts.free_bytes.value_or(saves->all), *saves, facts.write_gbs);
  } else {
    judge_room(finding, facts.free_bytes.value_or(kLittleFree));
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
