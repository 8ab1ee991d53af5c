// Does what the start of a session does, less data files, tuned products and the search for a
// placement.

#include "support/tiny_assembly.h"

#include "strata/base/narrow.h"

namespace strata::test {

namespace {

Backend cpu_backend(const RunConfig& config) {
  BackendOptions options;
  options.threads = narrow<int>(config.run.threads);
  return make_backend(BackendKind::kCpu, options);
}

}  // namespace

TinyAssembly::TinyAssembly(const RunConfig& config)
    : config_(config),
      backend_(cpu_backend(config)),
      collectives_(make_collectives(*ranks_, *backend_.device)),
      tokens_(1 << 20, config.model.llama.vocab_size, static_cast<std::uint64_t>(config.run.seed)),
      setup_(make_setup(config, 0, 1, {})) {
  const BatchOptions batch{.shape = {.rows = config.schedule.rows,
                                     .tokens = config.data.sequence_length,
                                     .sub_batches = config.schedule.sub_batches},
                           .passes = narrow<int>(config.schedule.passes),
                           .seed = static_cast<std::uint64_t>(config.run.seed),
                           .vocabulary = config.model.llama.vocab_size};
  loader_ = std::make_unique<BatchLoader>(tokens_, batch, *backend_.pool);
  assembly_ = std::make_unique<Assembly>(
      setup_, AssemblyParts{backend_, *ranks_, *collectives_},
      [this](const StepOutcome& outcome, std::int64_t) { outcomes_.push_back(outcome); });
  state().initialize(static_cast<std::uint64_t>(config.run.seed),
                     config.model.llama.initializer_range, *backend_.pool);
}

TinyAssembly::~TinyAssembly() { backend_.device->synchronize(); }

void TinyAssembly::submit(std::int64_t begin, std::int64_t end) {
  for (std::int64_t step = begin; step < end; ++step) {
    assembly_->submit(step, config_.optimizer.lr, [&](int pass, const PassBuffers& buffers) {
      return loader_->fill_pass(step * loader_->samples_per_step(), pass, buffers);
    });
  }
}

void TinyAssembly::synchronize() {
  assembly_->optimizer().submit_updates({.phase = "update"});
  backend_.device->synchronize();
}

void TinyAssembly::observe(UpdateObserver& observer) {
  assembly_->optimizer().submit_updates({.phase = "update"});
  assembly_->optimizer().observe(observer);
}

}  // namespace strata::test
