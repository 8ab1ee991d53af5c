// Picks the family of a config.

#include "strata/model/families.h"

#include <stdexcept>

#include "families.h"

namespace strata {

ModelSpec spec_of(const LlamaConfig& config) {
  switch (config.model_type) {
    case ModelType::kLlama:
    case ModelType::kMistral:
    case ModelType::kMinistral:
    case ModelType::kMinistral3:
    case ModelType::kSeedOss: return llama_spec(config);
    case ModelType::kPhi3: return phi3_spec(config);
    case ModelType::kQwen2: return qwen2_spec(config);
    case ModelType::kQwen3: return qwen3_spec(config);
    case ModelType::kGranite: return granite_spec(config);
    case ModelType::kOlmo2: return olmo2_spec(config);
    case ModelType::kGemma: return gemma_spec(config);
    case ModelType::kSmolLm3: return smollm3_spec(config);
    case ModelType::kGlm4: return glm4_spec(config);
    case ModelType::kExaone4: return exaone4_spec(config);
    case ModelType::kOlmo3: return olmo3_spec(config);
    case ModelType::kGemma2: return gemma2_spec(config);
    case ModelType::kGemma3: return gemma3_spec(config);
  }
  throw std::logic_error("the model is of no family");
}

}  // namespace strata
