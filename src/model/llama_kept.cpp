// Lists the tensors that a cell may keep between forward and backward, with what keeping each one
// saves. Plans weigh them and KeptStore holds them; the layer's list writes and reads them.

#include <vector>

#include "strata/model/llama.h"

namespace strata {

std::vector<KeptTensor> Llama::kept_tensors(const ModelSpec& spec, const LlamaSizes& z) {
  const DType x = z.compute;
  const std::int64_t n = z.cell_tokens;
  const LayerSpec& layer = spec.common();
  const Linear& qkv = layer.linear(LinearId::kQkv);
  const Linear& out = layer.linear(LinearId::kAttentionOut);
  const Linear& gate_up = layer.linear(LinearId::kGateUp);
  std::int64_t lengths = 0;  // of rows as windows leave them, in all layers
  for (int i = 0; i < spec.layers(); ++i) {
    lengths += windowed_length(z.row_tokens, spec.layer(i).attention.window);
  }
  const double mean_length = static_cast<double>(lengths) / spec.layers();
  const double attention_flops =
      2.0 * static_cast<double>(layer.attention.query_width()) * mean_length;
  std::vector<KeptTensor> kept{{.from = KeepLevel::kAttention,
                                .name = "kept.attention",
                                .view = &KeptActivations::o,
                                .dtype = x,
                                .shape = {n, out.in},
                                .flops_per_token = attention_flops},
                               {.from = KeepLevel::kAttention,
                                .name = "kept.lse",
                                .view = &KeptActivations::lse,
                                .dtype = accumulator_of(x),
                                .shape = {layer.attention.heads, n}},
                               {.from = KeepLevel::kAttentionOut,
                                .name = "kept.x_mid",
                                .view = &KeptActivations::x_mid,
                                .dtype = x,
                                .shape = {n, out.out},
                                .flops_per_token = out.flops()},
                               {.from = KeepLevel::kSelective,
                                .name = "kept.qkv",
                                .view = &KeptActivations::qkv,
                                .dtype = x,
                                .shape = {n, qkv.out},
                                .flops_per_token = qkv.flops()},
                               {.from = KeepLevel::kFull,
                                .name = "kept.gate_up",
                                .view = &KeptActivations::gate_up,
                                .dtype = x,
                                .shape = {n, gate_up.out},
                                .flops_per_token = gate_up.flops()}};
  if (layer.has(NormId::kMlpOut)) {
    const Linear& down = layer.linear(LinearId::kDown);
    kept.push_back({.from = KeepLevel::kAttentionOut,
                    .name = "kept.down",
                    .view = &KeptActivations::down,
                    .dtype = x,
                    .shape = {n, down.out},
                    .flops_per_token = down.flops()});
  }
  return kept;
}

}  // namespace strata
