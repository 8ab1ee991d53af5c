// OLMo 3: an OLMo 2 some of whose layers have a window. They rotate by wavelengths that are not
// scaled, whatever the other layers do.

#include "families.h"

namespace strata {

ModelSpec olmo3_spec(const LlamaConfig& config) {
  ModelSpec spec = olmo2_spec(config);
  for (LayerSpec& layer : spec.kinds) {
    if (layer.attention.window > 0) layer.attention.rope.scaling.reset();
  }
  return spec;
}

}  // namespace strata
