// Measures the products of LLaMA models with tuned plans, against the library's other proposals.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>
#include <vector>

#include "bench/matmul_bench.h"
#include "strata/model/families.h"
#include "strata/model/llama.h"
#include "strata/ops/backend.h"

namespace strata::bench {
namespace {

constexpr std::int64_t kTokens = 8192;
constexpr std::size_t kAllMemory = std::numeric_limits<std::size_t>::max();

struct Model {
  const char* name;
  std::int64_t vocabulary, hidden, intermediate, heads, kv_heads;
  ModelType type = ModelType::kLlama;

  [[nodiscard]] LlamaConfig config() const {
    LlamaConfig c;
    c.model_type = type;
    c.vocab_size = vocabulary;
    c.hidden_size = hidden;
    c.intermediate_size = intermediate;
    c.num_hidden_layers = 1;
    c.num_attention_heads = heads;
    c.num_key_value_heads = kv_heads;
    return c;
  }
};

constexpr Model kModels[] = {{"LLaMA 1.3B", 32000, 2048, 5504, 16, 16},
                             {"LLaMA 7B", 32000, 4096, 11008, 32, 32},
                             {"LLaMA 13B", 32000, 5120, 13824, 40, 40},
                             {"LLaMA 70B", 32000, 8192, 28672, 64, 8},
                             {"Llama 3 8B", 128256, 4096, 14336, 32, 8},
                             {"Qwen2.5 7B", 152064, 3584, 18944, 28, 4, ModelType::kQwen2}};

/// What a run has, and weight gradients that overwrite; the head's last chunk is left out.
std::vector<LlamaMatmul> products_of(const Model& model, const std::string& only) {
  const LlamaConfig config = model.config();
  const LlamaSizes sizes{.compute = DType::kBF16,
                         .row_tokens = kTokens,
                         .cell_tokens = kTokens,
                         .head_chunk = Llama::default_head_chunk(config.vocab_size, kTokens)};
  std::vector<LlamaMatmul> products;
  const auto add = [&](const LlamaMatmul& product) {
    const std::string name = model.name + (" " + product.name);
    if (name.find(only) != std::string::npos) products.push_back({name, product.shape});
  };
  for (LlamaMatmul product : Llama::matmuls(spec_of(config), sizes)) {
    if (product.name.starts_with("last")) continue;
    add(product);
    if (product.shape.update == MatmulUpdate::kOverwrite) continue;
    product.name += ", overwrite";
    product.shape.update = MatmulUpdate::kOverwrite;
    add(product);
  }
  return products;
}

double tflops(const MatmulShape& shape, double seconds) {
  return seconds > 0 && std::isfinite(seconds) ? shape.flops() / seconds * 1e-12 : 0;
}

nlohmann::json row_of(const LlamaMatmul& product, const MatmulComparison& c) {
  const MatmulShape& s = product.shape;
  const double planned = tflops(s, c.planned_s);
  const double first = tflops(s, c.first_s);
  const double best = tflops(s, c.best_s);
  std::printf("%-50s %s %6lld %6lld %6lld %8.1f %8.1f %8.1f %9.3f %9.3f\n", product.name.c_str(),
              name_of(s.layout).data(), static_cast<long long>(s.m), static_cast<long long>(s.n),
              static_cast<long long>(s.k), planned, first, best, planned / first, planned / best);
  std::fflush(stdout);
  return {{"name", product.name},       {"shape", to_string(s)}, {"tuned_tflops", planned},
          {"first_tflops", first},      {"best_tflops", best},   {"over_first", planned / first},
          {"over_best", planned / best}};
}

}  // namespace

nlohmann::json bench_tuned(const MatmulBenchOptions& options) {
  Backend backend = make_backend(BackendKind::kCuda, {.device = {}, .threads = 1});
  MatmulTuner& tuner = *backend.kernels->matmul_tuner();
  const std::string platform = tuner.platform();
  std::printf("%s; bf16, %lld tokens; TFLOP/s are medians of 24 groups of products\n",
              platform.c_str(), static_cast<long long>(kTokens));
  std::printf("%-50s %2s %6s %6s %6s %8s %8s %8s %9s %9s\n", "product", "", "m", "n", "k", "tuned",
              "first", "best", "/ first", "/ best");
  nlohmann::json rows = nlohmann::json::array();
  double planned_s = 0;
  double first_s = 0;
  double worst = std::numeric_limits<double>::infinity();
  for (const Model& model : kModels) {
    const std::vector<LlamaMatmul> products = products_of(model, options.only);
    std::vector<MatmulShape> shapes;
    for (const LlamaMatmul& product : products) shapes.push_back(product.shape);
    for (const MatmulPlan& plan : tuner.tune(shapes, kAllMemory)) tuner.use(plan);
    const std::vector<MatmulComparison> comparisons = tuner.compare(shapes, kAllMemory);
    for (std::size_t i = 0; i < products.size(); ++i) {
      rows.push_back(row_of(products[i], comparisons[i]));
      rows.back()["platform"] = platform;
      planned_s += comparisons[i].planned_s;
      first_s += comparisons[i].first_s;
      worst = std::min(worst, rows.back()["over_best"].get<double>());
    }
  }
  if (!rows.empty()) {
    std::printf("all together: tuned %.3f of the first proposals' speed; least / best: %.3f\n",
                first_s / planned_s, worst);
  }
  return rows;
}

}  // namespace strata::bench
