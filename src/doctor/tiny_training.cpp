// Makes tiny runs and compares what they left.

#include "doctor/tiny_training.h"

#include <bit>
#include <memory>

#include "strata/base/log.h"

namespace strata {

namespace {

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// Returns "what I: A, expected B" of the first element that differs.
std::string difference_of(const std::string& what, const std::vector<double>& got,
                          const std::vector<double>& want, std::size_t first) {
  if (got.size() != want.size()) {
    return fmt::format("{}: {} values, expected {}", what, got.size(), want.size());
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (same_bits(got[i], want[i])) continue;
    return fmt::format("{} {} is {:.17g}, expected {:.17g}", what, first + i, got[i], want[i]);
  }
  return {};
}

}  // namespace

RunConfig tiny_training(const SelfTestOptions& options) {
  RunConfig config;
  config.run.backend =
      options.backend == BackendKind::kCuda ? BackendChoice::kCuda : BackendChoice::kCpu;
  config.run.dtype = DType::kBF16;
  config.run.steps = 4;
  config.run.threads = options.threads;
  config.checkpoint = CheckpointSection::none();
  LlamaConfig& model = config.model.llama;
  model.vocab_size = 257;
  model.hidden_size = 64;
  model.intermediate_size = 160;
  model.num_hidden_layers = 3;
  model.num_attention_heads = 2;
  model.num_key_value_heads = 1;
  model.head_dim = 64;
  model.max_position_embeddings = 64;
  model.initializer_range = 0.1;
  config.data.synthetic = true;
  config.data.sequence_length = 40;
  config.schedule.rows = 1;
  config.schedule.sub_batches = 4;
  config.optimizer.lr = 1e-2;
  config.optimizer.grad_clip = 0.7;
  config.kernels.matmul_tuning = MatmulTuning::kOff;
  config.hardware.stored_rates = false;
  return config;
}

SessionHooks hooks_of(const SelfTestOptions& options) {
  SessionHooks hooks;
  hooks.make_backend = options.make_backend;
  return hooks;
}

SingleRank::SingleRank(const SelfTestOptions& options)
    : own_(options.single_ranks == nullptr ? make_self_ranks() : nullptr),
      ranks_(options.single_ranks == nullptr ? *own_ : *options.single_ranks) {}

void train_steps(Session& session, std::int64_t begin, std::int64_t end) {
  for (std::int64_t step = begin; step < end; ++step) {
    session.submit(step, session.config().optimizer.lr);
  }
}

TrainingResult result_of(Session& session) {
  session.synchronize();
  TrainingResult result;
  for (const FinishedStep& finished : session.take_finished()) {
    result.losses.push_back(finished.outcome.loss.value());
    result.norms.push_back(finished.outcome.grad_norm);
  }
  for (const BlockId block : session.state().ids()) {
    result.weights.push_back(session.state().master(block));
  }
  return result;
}

std::string first_difference(const TrainingResult& got, const TrainingResult& want,
                             std::int64_t from) {
  const auto first = static_cast<std::size_t>(from);
  std::string text = difference_of("loss of step", got.losses, want.losses, first);
  if (text.empty()) text = difference_of("norm of step", got.norms, want.norms, first);
  for (std::size_t block = 0; block < want.weights.size() && text.empty(); ++block) {
    text = difference_of(fmt::format("block {}, weight", block), got.weights.at(block),
                         want.weights[block], 0);
  }
  return text;
}

}  // namespace strata
