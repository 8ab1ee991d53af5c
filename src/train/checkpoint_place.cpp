// Whatever a run has left out or was validated on before it went on counts here.
// checkpoint_place.h is the contract.

#include "strata/train/checkpoint_place.h"

#include <algorithm>
#include <system_error>

#include "strata/checkpoint/checkpoint_save.h"

namespace strata {

bool CheckpointPlace::resumes_own() const {
  if (!resume) return false;
  const auto same_for_all = [](const std::filesystem::path& path) {
    std::error_code error;
    const std::filesystem::path found =
        std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
    return error ? path.lexically_normal() : found;
  };
  return same_for_all(resume->folder) ==
         same_for_all(folder / checkpoint_name(resume->manifest.step));
}

std::int64_t CheckpointPlace::first_sample() const {
  const std::int64_t consumed = resume ? resume->manifest.samples : 0;
  return skipped.empty() ? consumed : std::max(consumed, skipped.back().end);
}

std::int64_t CheckpointPlace::trained_samples() const {
  return first_sample() - samples_in(skipped);
}

Validations CheckpointPlace::validations() const {
  if (!resume) return {};
  const Manifest& manifest = resume->manifest;
  const bool of_other_data = data.validation_since > manifest.data.validation_since;
  return of_other_data ? Validations() : manifest.validations;
}

}  // namespace strata
