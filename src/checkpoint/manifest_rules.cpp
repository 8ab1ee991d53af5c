// Checks the fields of a manifest; manifest.cpp asks once a text was parsed. Every number is
// bounded before anything is computed of it, since a manifest may come from a stranger; each
// refusal names its field.

#include "checkpoint/manifest_rules.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/text.h"
#include "strata/data/mixture.h"

namespace strata {

void refuse_manifest(const std::string& field, const std::string& problem) {
  throw IoError(shortened(printable_name(field)) + ": " + problem);
}

namespace {

/// Throws IoError unless `path` names something in the checkpoint's folder, in one way only.
void check_path(const std::string& path, const std::string& field) {
  constexpr std::size_t kMostBytes = 255;  // of a name, as file systems have it
  const std::string shown_path = '"' + shortened(printable_name(path)) + '"';
  if (path == kManifestName) refuse_manifest(field, "names the manifest itself");
  for (const char c : path) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 || code == 0x7f || c == '\\') {
      refuse_manifest(field, shown_path + " has a character that no file here has");
    }
  }
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view name = std::string_view(path).substr(begin, end - begin);
    if (name.empty() || name == "." || name == ".." || name.size() > kMostBytes) {
      refuse_manifest(field, shown_path + " is not the path of a file in the checkpoint's folder");
    }
    begin = end + 1;
  }
}

void check_slices(const ManifestFile& file, std::int64_t updates, const std::string& field) {
  std::uint64_t covered = 0;
  for (std::size_t i = 0; i < file.slices.size(); ++i) {
    const SliceHashes& slice = file.slices[i];
    const std::string here = field + ".slices[" + std::to_string(i) + "]";
    if (slice.begin != covered) {
      refuse_manifest(here + ".begin", "is " + std::to_string(slice.begin) +
                                           ", but the slices before it end at " +
                                           std::to_string(covered));
    }
    if (slice.end <= slice.begin || slice.end > file.bytes) {
      refuse_manifest(here + ".end", "is " + std::to_string(slice.end) + ", outside of " +
                                         std::to_string(slice.begin + 1) + " to " +
                                         std::to_string(file.bytes));
    }
    if (slice.update < 0 || slice.update > updates) {
      refuse_manifest(here + ".update", "is " + std::to_string(slice.update) + ", but there were " +
                                            std::to_string(updates) + " updates");
    }
    if (const std::uint64_t windows = windows_of(slice.begin, slice.end);
        windows != slice.windows.size()) {
      refuse_manifest(here + ".xxh3", "has " + std::to_string(slice.windows.size()) +
                                          " hashes for " + std::to_string(windows) + " windows");
    }
    covered = slice.end;
  }
  if (covered != file.bytes) {
    refuse_manifest(field + ".slices", "cover " + std::to_string(covered) + " of " +
                                           std::to_string(file.bytes) + " bytes");
  }
}

void check_statistics(const RunningNumber& number, const char* field) {
  if (number.count < 0 || number.count > RunningNumber::kWindow) {
    refuse_manifest(field, "counts " + std::to_string(number.count) + " steps, and at most " +
                               std::to_string(RunningNumber::kWindow) + " count");
  }
  if (!std::isfinite(number.mean) || !std::isfinite(number.variance) || number.variance < 0) {
    refuse_manifest(field,
                    "has a mean that is not finite, or a variance that is not, or is negative");
  }
}

/// Throws IoError for more sources than a run may have, and for counts whose sums nobody can add.
void check_sources(const std::vector<SourceContent>& sources, std::size_t most,
                   const std::string& field) {
  if (sources.size() > most) {
    refuse_manifest(field, "has " + std::to_string(sources.size()) + " sources, more than " +
                               std::to_string(most));
  }
  const auto fits = [most = static_cast<std::int64_t>(most)](std::int64_t count) {
    return count >= 0 && count <= std::numeric_limits<std::int64_t>::max() / most;
  };
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::string here = field + "[" + std::to_string(i) + "].";
    if (!fits(sources[i].tokens)) refuse_manifest(here + "tokens", "is out of range");
    if (!fits(sources[i].documents.value_or(0))) {
      refuse_manifest(here + "documents", "is out of range");
    }
  }
}

void check_data(const RunData& data, std::int64_t step) {
  for (const auto& [field, value] : {std::pair("data.step_tokens", data.step_tokens),
                                     std::pair("data.validation_rows", data.validation_rows),
                                     std::pair("data.validation_since", data.validation_since)}) {
    if (value < 0) refuse_manifest(field, "is negative");
  }
  if (data.validation_since > step) {
    refuse_manifest("data.validation_since", "is " + std::to_string(data.validation_since) +
                                                 " after " + std::to_string(step) + " steps");
  }
  if (!data.contents) return;
  check_sources(data.contents->training, Mixture::kMostSources, "data.contents.training");
  check_sources(data.contents->validation, 1, "data.contents.validation");
}

void check_loss(const std::optional<ValidatedLoss>& loss, std::int64_t steps,
                const std::string& field) {
  if (!loss) return;
  if (loss->step > steps) {
    refuse_manifest(field + ".step", "is " + std::to_string(loss->step) + " after " +
                                         std::to_string(steps) + " steps");
  }
  if (!std::isfinite(loss->loss)) refuse_manifest(field + ".loss", "is not a finite number");
}

void check_validations(const Validations& found, std::int64_t steps) {
  check_loss(found.last, steps, "validations.last");
  check_loss(found.best, steps, "validations.best");
  if (found.last && !(found.best && found.best->loss <= found.last->loss)) {
    refuse_manifest("validations.best", "is not the lowest loss: that of the last is below it");
  }
  if (found.without_gain > steps) {
    refuse_manifest("validations.without_gain", "is " + std::to_string(found.without_gain) +
                                                    " after " + std::to_string(steps) + " steps");
  }
}

}  // namespace

void check_manifest(const Manifest& manifest) {
  for (const auto& [field, value] :
       {std::pair("step", manifest.step), std::pair("updates", manifest.history.updates),
        std::pair("samples", manifest.samples),
        std::pair("bad_in_a_row", manifest.history.bad_in_a_row)}) {
    if (value < 0) refuse_manifest(field, "is negative");
  }
  // No run takes more steps (run.steps), and beyond so many samples their numbers would overflow
  // in what is computed of them.
  constexpr std::int64_t kMostSteps = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t kMostSamples = std::int64_t{1} << 53;
  for (const auto& [field, value, most] : {std::tuple("step", manifest.step, kMostSteps),
                                           std::tuple("samples", manifest.samples, kMostSamples)}) {
    if (value <= most) continue;
    refuse_manifest(field, "is " + std::to_string(value) + ", above the " + std::to_string(most) +
                               " that a run may have");
  }
  for (const auto& [field, value] : {std::pair("updates", manifest.history.updates),
                                     std::pair("bad_in_a_row", manifest.history.bad_in_a_row)}) {
    if (value > manifest.step) {
      refuse_manifest(field, "is " + std::to_string(value) + " after " +
                                 std::to_string(manifest.step) + " steps");
    }
  }
  check_validations(manifest.validations, manifest.step);
  check_statistics(manifest.history.statistics.loss, "loss_statistics");
  check_statistics(manifest.history.statistics.grad_norm, "norm_statistics");
  check_data(manifest.data, manifest.step);
  std::int64_t last = 0;
  for (std::size_t i = 0; i < manifest.skipped.size(); ++i) {
    const SampleWindow& window = manifest.skipped[i];
    if (window.begin < last || window.end <= window.begin || window.end > manifest.samples) {
      refuse_manifest("skipped[" + std::to_string(i) + "]",
                      "is no range of samples behind the one before it, up to the field samples");
    }
    last = window.end;
  }
  if (manifest.finite &&
      !(std::isfinite(manifest.loss.value_or(0)) && std::isfinite(manifest.grad_norm))) {
    refuse_manifest("finite", "is true, but loss or grad_norm is not a finite number");
  }
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    const ManifestFile& file = manifest.files[i];
    const std::string field = "files[" + std::to_string(i) + "]";
    check_path(file.path, field + ".path");
    if (i > 0 && manifest.files[i - 1].path >= file.path) {
      refuse_manifest(field + ".path", '"' + shortened(printable_name(file.path)) +
                                           "\" does not come after the path before it");
    }
    check_slices(file, manifest.history.updates, field);
  }
}

}  // namespace strata
