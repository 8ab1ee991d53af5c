// The kernels of samples are prepared first, at their largest sizes, then products are planned, and
// the kernels of steps come last. session_kernels.h is the contract.

#include "train/session_kernels.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/base/cache_file.h"
#include "strata/base/log.h"
#include "strata/base/process.h"
#include "strata/model/llama.h"
#include "strata/plan/sample_setup.h"
#include "train/matmul_plans.h"
#include "train/small_files.h"

namespace strata {

namespace {

constexpr std::size_t kAnyMemory = std::numeric_limits<std::size_t>::max();

/// Returns the device memory that tuning may take.
std::size_t memory_to_tune_in(const RunConfig& config, std::size_t used) {
  const std::size_t limit =
      config.memory.device_limit ? config.memory.device_limit->bytes : kAnyMemory;
  return limit - std::min(limit, used);
}

/// Chooses a plan for each matrix product of a step.
void plan_products(const RunConfig& config, const ModelSpec& spec, const SessionHooks& hooks,
                   MatmulTuner& tuner, const Device& device, Ranks& ranks, WorkProgress& work) {
  if (hooks.checkpoints) restore_plans(*hooks.checkpoints, ranks);
  std::vector<MatmulShape> shapes;
  for (const LlamaMatmul& product : Llama::matmuls(spec, llama_sizes(config))) {
    shapes.push_back(product.shape);
  }
  const std::optional<std::string>& cache = config.kernels.plan_cache;
  const std::size_t used = device.device_bytes_in_use();
  const double begin_s = steady_seconds();
  const PlanReport report =
      plan_matmuls(tuner, shapes,
                   {.run = hooks.run_folder,
                    .cache = cache ? std::filesystem::path(*cache) : user_cache_folder()},
                   memory_to_tune_in(config, used), ranks, &work);
  for (const std::string& warning : report.warnings) log::warn("{}", warning);
  const std::size_t now = device.device_bytes_in_use();
  log::debug(
      "plans of matrix products: {} of the run folder, {} of the cache, {} measured; {:.1f} s; "
      "loaded kernels took {} of device memory",
      report.from_run, report.from_cache, report.measured, steady_seconds() - begin_s,
      format_bytes(now - std::min(now, used)));
}

}  // namespace

void prepare_kernels(const RunConfig& config, const ModelSpec& spec, const SessionHooks& hooks,
                     Backend& backend, Ranks& ranks, WorkProgress& work) {
  work.begin("planning matrix products");
  if (config.run.sample_every > 0) {
    const SampleLayout largest = make_sample_setup(config, kAnyMemory);
    LlamaForward::prepare(largest.spec, largest.sizes, *backend.kernels);
  }
  MatmulTuner* const tuner = backend.kernels->matmul_tuner();
  if (tuner != nullptr && config.kernels.matmul_tuning != MatmulTuning::kOff) {
    plan_products(config, spec, hooks, *tuner, *backend.device, ranks, work);
  }
  work.begin("loading kernels");
  Llama::prepare(*backend.kernels, spec, llama_sizes(config));
}

}  // namespace strata
