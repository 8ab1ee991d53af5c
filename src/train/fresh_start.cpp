// The metrics of the run before say whether it had a checkpoint, and whether it got as far as
// steps.

#include "strata/train/fresh_start.h"

#include <initializer_list>
#include <string>
#include <system_error>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/log.h"
#include "strata/report/past_run.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

PastRun past_of(const fs::path& metrics) {
  return is_there(metrics) ? read_past_run(metrics) : PastRun();
}

void set_aside(const fs::path& file) {
  if (!is_there(file)) return;
  fs::path free = file.string() + ".old";
  for (int i = 2; is_there(free); ++i) free = file.string() + ".old-" + std::to_string(i);
  std::error_code error;
  fs::rename(file, free, error);
  if (error) throw IoError(file.string() + ": rename to " + free.string() + ": " + error.message());
  log::info("{} is of a run that saved no checkpoint; it is {} now", file.string(),
            free.filename().string());
}

}  // namespace

void require_no_past(const fs::path& run_folder) {
  const fs::path metrics = run_folder / kMetricsName;
  const PastRun past = past_of(metrics);
  if (past.checkpoint.empty()) return;
  throw ConfigError("--resume auto: there is no checkpoint in " +
                    (run_folder / kCheckpointsName).string() + ", but " + metrics.string() +
                    " tells of " + past.checkpoint +
                    "; bring it back (mount the disk, or move the folder back), name one by "
                    "--resume DIR, begin anew in another folder (--output), or replace the run by "
                    "--overwrite");
}

void set_aside_lines(const RunFolder& folder) {
  if (!past_of(folder.metrics()).has_lines) return;
  for (const fs::path& file : {folder.metrics(), folder.samples()}) set_aside(file);
}

}  // namespace strata
