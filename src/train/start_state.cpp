// A checkpoint is read by all ranks together, block by block; weights of a folder are read by each
// rank on its own. start_state.h is the contract.

#include "train/start_state.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/base/log.h"
#include "strata/checkpoint/base_weights.h"
#include "strata/checkpoint/load_state.h"
#include "strata/model/layout.h"
#include "strata/model/safetensors.h"
#include "strata/model/weights_check.h"
#include "strata/runfiles/named_adapter.h"
#include "strata/runfiles/start_weights.h"
#include "train/read_together.h"

namespace strata {

namespace {

/// Returns the bytes of a buffer that holds any window of a checkpoint's files.
std::size_t window_bytes(const Manifest& manifest) {
  std::uint64_t longest = 0;
  for (const ManifestFile& file : manifest.files) longest = std::max(longest, file.bytes);
  return round_up(static_cast<std::size_t>(std::min(longest, kHashWindow)), kFileAlignment) +
         kFileAlignment;
}

/// Sets state and optimizer to what the checkpoint holds.
void load_checkpoint(const CheckpointPlace& place, const std::function<void()>& may_end,
                     TrainingEngine& engine, ThreadPool& pool, Ranks& ranks, WorkProgress& work) {
  const FoundCheckpoint& from = place.resume.value();
  // The buffers of saves are made for the files of this run. Where it saves nothing, or the
  // checkpoint's files have other dtypes, others are taken for as long as it is read.
  const std::size_t each = window_bytes(from.manifest);
  WindowBuffers* buffers = engine.saver() != nullptr ? &engine.saver()->buffers() : nullptr;
  std::vector<std::byte> memory;
  std::optional<WindowBuffers> own;
  if (buffers == nullptr || buffers->bytes_each() < each) {
    constexpr std::size_t kMost = 8;
    const std::size_t count = std::min(static_cast<std::size_t>(pool.threads()), kMost);
    memory.resize(count * each + kFileAlignment);
    buffers = &own.emplace(memory, each);
  }
  // All ranks meet between the blocks and at the end. One that cannot read says so where it would
  // have met the others next.
  const auto meet_or_end = [&](const ReadFailure& failure) {
    meet(failure, ranks);
    if (may_end) may_end();
  };
  meet_or_end(failure_of([&] {
    load_state(
        *place.files, from.folder, from.manifest, engine.state(), pool, *buffers,
        [&] { meet_or_end({}); }, &work);
  }));
  engine.resume(from.manifest.history);
}

/// Returns whether the run goes on from a checkpoint.
bool resumes(const SessionHooks& hooks) { return hooks.checkpoints && hooks.checkpoints->resume; }

/// Returns what is added to what is said of rows for more tokens: where adapters are trained, which
/// of them are not.
std::string rows_that_stay(const ModelSpec& spec) {
  if (!spec.adapted()) return "";
  std::string modules = spec.whole.embedding ? "" : "embed_tokens";
  if (!spec.tied() && !spec.whole.projection) {
    modules += modules.empty() ? "lm_head" : " and lm_head";
  }
  if (modules.empty()) return "";
  return "; adapter.modules_to_save lacks " + modules + ", whose new rows stay so";
}

/// Returns the form that layers had under the adapters of a checkpoint; that of the run may differ.
Form saved_form(const FoundCheckpoint& checkpoint) {
  const RunConfig saved =
      parse_run_config(checkpoint.manifest.config, (checkpoint.folder / kManifestName).string());
  return saved.adapter.value_or(AdapterConfig()).base_format;
}

/// Draws weights, or reads those of model.path. Adapters are drawn, unless `adapters` has them.
void set_start_weights(const RunConfig& config, const AdapterFiles& adapters, TrainingState& state,
                       ThreadPool& pool, Ranks& ranks, WorkProgress& work) {
  const auto seed = static_cast<std::uint64_t>(config.run.seed);
  if (config.model.path.empty()) {
    work.begin("drawing weights", {.total = state.weight_bytes()});
    state.initialize(seed, config.model.llama.initializer_range, pool, &work);
    return;
  }
  work.begin("reading weights", {.total = state.weight_bytes()});
  const StartWeights start = open_start_weights(config.model);
  if (!start.resized.empty() && ranks.rank() == 0) {
    log::info("{}{}", start.resized, rows_that_stay(config.spec()));
  }
  state.load(start.files, pool, &work,
             {.seed = seed, .files = adapters.empty() ? nullptr : &adapters});
}

}  // namespace

void check_start_weights(const RunConfig& config, const SessionHooks& hooks, const ModelSpec& spec,
                         Ranks& ranks) {
  if (config.model.path.empty()) return;
  const ModelLayout layout = make_layout(spec);
  const std::string unused = check_weights(SafetensorsDirectory(config.model.path), layout);
  if (!unused.empty() && ranks.rank() == 0) log::warn("{}", unused);
  if (!resumes(hooks)) check_start_adapter(config, layout);
}

void set_start_state(const RunConfig& config, const SessionHooks& hooks, TrainingEngine& engine,
                     ThreadPool& pool, Ranks& ranks, WorkProgress& work) {
  if (!resumes(hooks)) {
    const AdapterFiles adapters = open_start_adapter(config, engine.state().layout());
    return set_start_weights(config, adapters, engine.state(), pool, ranks, work);
  }
  if (config.adapter) {
    set_start_weights(config, {}, engine.state(), pool, ranks, work);
    const FoundCheckpoint& from = *hooks.checkpoints->resume;
    require_same_base(from.manifest.base.value_or(BaseWeights()),
                      base_weights_in(saved_form(from), config.model));
  }
  work.begin("verifying the checkpoint");
  load_checkpoint(*hooks.checkpoints, hooks.may_end, engine, pool, ranks, work);
}

}  // namespace strata
