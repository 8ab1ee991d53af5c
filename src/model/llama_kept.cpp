// The tensors that a cell may keep between forward and backward, with what keeping each one saves.
// Plans weigh them and KeptStore holds them; the layer's list writes and reads them.

#include <vector>

#include "strata/model/llama.h"

namespace strata {

std::vector<KeptTensor> Llama::kept_tensors(const LlamaConfig& c, const LlamaSizes& z) {
  const DType x = z.compute;
  const std::int64_t n = z.cell_tokens;
  const std::int64_t query = c.query_width();
  const std::int64_t qkv = query + 2 * c.kv_width();
  const std::int64_t gate_up = 2 * c.intermediate_size;
  const auto product = [](std::int64_t in, std::int64_t out) {
    return 2.0 * static_cast<double>(in) * static_cast<double>(out);
  };
  return {{.from = KeepLevel::kAttention,
           .name = "kept.attention",
           .view = &KeptActivations::o,
           .dtype = x,
           .shape = {n, query},
           .flops_per_token = product(query, z.row_tokens)},
          {.from = KeepLevel::kAttention,
           .name = "kept.lse",
           .view = &KeptActivations::lse,
           .dtype = accumulator_of(x),
           .shape = {c.num_attention_heads, n}},
          {.from = KeepLevel::kAttentionOut,
           .name = "kept.x_mid",
           .view = &KeptActivations::x_mid,
           .dtype = x,
           .shape = {n, c.hidden_size},
           .flops_per_token = product(query, c.hidden_size)},
          {.from = KeepLevel::kSelective,
           .name = "kept.qkv",
           .view = &KeptActivations::qkv,
           .dtype = x,
           .shape = {n, qkv},
           .flops_per_token = product(c.hidden_size, qkv)},
          {.from = KeepLevel::kFull,
           .name = "kept.gate_up",
           .view = &KeptActivations::gate_up,
           .dtype = x,
           .shape = {n, gate_up},
           .flops_per_token = product(c.hidden_size, gate_up)}};
}

}  // namespace strata
