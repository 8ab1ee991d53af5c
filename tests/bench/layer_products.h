// A realistic load for the compute lane: the matrix products of one layer. host_bench runs it
// beside copies and AdamW to see what they cost each other.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/device_pool.h"
#include "strata/base/bytes.h"
#include "strata/model/families.h"
#include "strata/model/llama.h"
#include "strata/ops/backend.h"

namespace strata::bench {

/// The matrix products of one layer of LLaMA 7B on 8192 tokens, forward and backward, to keep the
/// compute lane busy, with the plans that a run would measure for them. Operands are random.
class LayerProducts {
 public:
  explicit LayerProducts(Backend& backend) : backend_(backend), pool_(backend, 6 * kGiB) {
    LlamaConfig config;
    config.vocab_size = 32000;
    config.hidden_size = 4096;
    config.intermediate_size = 11008;
    config.num_hidden_layers = 1;
    config.num_attention_heads = 32;
    config.num_key_value_heads = 32;
    const LlamaSizes sizes{.compute = DType::kBF16,
                           .row_tokens = kTokens,
                           .cell_tokens = kTokens,
                           .head_chunk = Llama::default_head_chunk(config.vocab_size, kTokens)};
    std::vector<MatmulShape> shapes;
    for (const LlamaMatmul& product : Llama::matmuls(spec_of(config), sizes)) {
      if (product.shape.n == config.vocab_size || product.shape.m == config.vocab_size ||
          product.shape.k == config.vocab_size) {
        continue;  // the head's
      }
      const MatmulShape& s = product.shape;
      shapes.push_back(s);
      products_.push_back({.a = matrix(s.in, s.rows_a(), s.stride_a, columns_a(s)),
                           .b = matrix(s.in, s.rows_b(), s.stride_b, columns_b(s)),
                           .out = matrix(s.out, s.m, s.stride_out, s.n),
                           .layout = s.layout,
                           .update = s.update});
      flops_ += s.flops();
    }
    MatmulTuner* tuner = backend.kernels->matmul_tuner();
    if (tuner == nullptr) return;
    for (const MatmulPlan& plan : tuner->tune(shapes, kMeasuring)) tuner->use(plan);
  }

  [[nodiscard]] double flops() const { return flops_; }
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(products_.size()); }
  void submit(int layers) {
    Stream& compute = backend_.device->stream(Lane::kCompute);
    for (int i = 0; i < layers; ++i) {
      for (const Matmul& product : products_) backend_.kernels->run(compute, product, {});
    }
  }

 private:
  static constexpr std::int64_t kTokens = 8192;
  static constexpr std::size_t kMeasuring = 8 * kGiB;
  static std::int64_t columns_a(const MatmulShape& s) {
    return s.layout == MatmulLayout::kTN ? s.m : s.k;
  }
  static std::int64_t columns_b(const MatmulShape& s) {
    return s.layout == MatmulLayout::kNT ? s.k : s.n;
  }
  TensorView matrix(DType dtype, std::int64_t rows, std::int64_t stride, std::int64_t columns) {
    return {pool_.tensor(dtype, {rows, stride}).data, dtype, Shape{rows, columns}, stride};
  }

  Backend& backend_;
  DevicePool pool_;
  std::vector<Matmul> products_;
  double flops_ = 0;
};

}  // namespace strata::bench
