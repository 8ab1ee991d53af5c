// Makes configs of golden models, and trains by them on ranks that are threads.

#include "golden/golden_run.h"

#include <cstdint>
#include <mutex>
#include <utility>

#include "strata/train/session.h"
#include "support/thread_ranks.h"

namespace strata::test {

RunConfig golden_config(const GoldenModel& golden, DType dtype) {
  RunConfig config;
  config.run.backend = BackendChoice::kCpu;
  config.run.dtype = dtype;
  config.run.threads = 2;
  config.run.steps = static_cast<std::int64_t>(golden.steps.size());
  config.model.path = golden.folder.string();
  config.model.llama = load_llama_config(golden.folder / "config.json");
  config.data.synthetic = true;  // replaced by the golden batches
  config.data.sequence_length = golden.tokens;
  config.data.document_mask = golden.mask == DocumentMask::kOn;
  config.schedule.rows = 1;
  config.schedule.sub_batches = golden.rows;
  config.optimizer.lr = golden.optimizer.lr;
  config.optimizer.betas = {golden.optimizer.beta1, golden.optimizer.beta2};
  config.optimizer.eps = golden.optimizer.eps;
  config.optimizer.weight_decay = golden.optimizer.weight_decay;
  config.optimizer.grad_clip = golden.optimizer.clip;
  config.optimizer.gradient_dtype = DType::kF32;
  config.kernels.matmul_tuning = MatmulTuning::kOff;
  return config;
}

GoldenRun train_golden(const GoldenModel& golden, const RunConfig& config, int ranks,
                       const std::function<void(TrainingState&)>& begin) {
  std::mutex mutex;
  GoldenRun run;
  run_ranks(ranks, [&](Ranks& group) {
    SessionHooks hooks;
    hooks.fill = [&](std::int64_t step, int pass, const BatchOptions& options,
                     const PassBuffers& out) {
      return fill_golden_pass(golden, step, pass, options, out);
    };
    Session session(config, group, hooks);
    if (begin) begin(session.state());
    session.submit(0, config.optimizer.lr);
    session.synchronize();
    auto gradients = gather_gradients(session.state(), group);
    for (std::int64_t step = 1; step < config.run.steps; ++step) {
      session.submit(step, config.optimizer.lr);
    }
    session.synchronize();
    auto weights = gather_weights(session.state(), group);
    const std::lock_guard lock(mutex);
    if (group.rank() != 0) return;
    for (const FinishedStep& finished : session.take_finished()) {
      run.result.losses.push_back(finished.outcome.loss.value());
      run.result.norms.push_back(finished.outcome.grad_norm);
    }
    run.result.weights = std::move(weights);
    run.first_gradients = std::move(gradients);
  });
  return run;
}

}  // namespace strata::test
