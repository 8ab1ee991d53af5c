// SmolLM3 without a window: what a LLaMA computes, but some of its layers do not rotate queries and
// keys.

#include <cstddef>
#include <cstdint>

#include "families.h"

namespace strata {

ModelSpec smollm3_spec(const LlamaConfig& config) {
  ModelSpec spec = llama_spec(config);
  for (std::size_t layer = 0; layer < spec.kind.size(); ++layer) {
    if (config.rotates(static_cast<std::int64_t>(layer))) continue;
    if (spec.kinds.size() == 1) {
      spec.kinds.push_back(spec.kinds.front());
      spec.kinds.back().attention.rotates = false;
    }
    spec.kind[layer] = 1;
  }
  return spec;
}

}  // namespace strata
