// Makes the tiny configs: sets what makes the tiny model's runs irregular, and leaves no choice to
// the machine.

#include "support/tiny_config.h"

#include "support/tiny_model.h"

namespace strata::test {

RunConfig tiny_config() {
  RunConfig config;
  config.run.backend = BackendChoice::kCpu;
  config.run.dtype = DType::kF64;
  config.run.steps = 3;
  config.run.threads = 2;
  config.checkpoint = CheckpointSection::none();  // tests of checkpoints ask for them
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
  config.hardware.stored_rates = false;               // nor do they choose by what was stored
  return config;
}

RunConfig tiny_gpu_config(DType dtype) {
  RunConfig config = tiny_config();
  config.run.backend = BackendChoice::kCuda;
  config.run.dtype = dtype;
  config.run.steps = 8;
  LlamaConfig& m = config.model.llama;
  m.vocab_size = 257;
  m.hidden_size = 192;
  m.intermediate_size = 320;
  m.num_hidden_layers = 4;
  m.num_attention_heads = 3;
  m.num_key_value_heads = 1;
  m.head_dim = 64;
  m.max_position_embeddings = 256;
  m.initializer_range = 0.05;
  config.data.sequence_length = 200;
  config.optimizer.lr = 3e-3;
  config.optimizer.interleave = 0;  // predictions may choose another for this device
  config.optimizer.gradient_dtype = dtype == DType::kBF16 ? DType::kBF16 : DType::kF32;
  return config;
}

}  // namespace strata::test
