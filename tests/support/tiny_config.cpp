// Sets what makes the tiny model's runs irregular, and leaves no choice to the machine.

#include "support/tiny_config.h"

#include "support/tiny_model.h"

namespace strata::test {

RunConfig tiny_config() {
  RunConfig config;
  config.run.backend = BackendChoice::kCpu;
  config.run.dtype = DType::kF64;
  config.run.steps = 3;
  config.run.threads = 2;
  config.model.llama = tiny_model();
  config.data.synthetic = true;
  config.data.sequence_length = 7;
  config.schedule.rows = 1;
  config.schedule.sub_batches = 6;
  config.schedule.resident_units = 0;  // tests say what lives on the device
  config.schedule.gradient_sums = GradientSums::kHost;
  config.optimizer.lr = 2e-2;
  config.optimizer.gradient_dtype = DType::kF32;
  config.optimizer.grad_clip = 0.7;
  config.kernels.matmul_tuning = MatmulTuning::kOff;  // tests find no plans and leave none
  return config;
}

}  // namespace strata::test
