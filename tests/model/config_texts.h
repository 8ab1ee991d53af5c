// What tests of config.json share: texts of small models, as Hugging Face writes them.
#pragma once

#include <string>

#include "strata/base/error.h"
#include "strata/model/config.h"

namespace strata::test {

/// Returns what the text of a config.json says.
inline LlamaConfig parse(const std::string& text) {
  return parse_llama_config(text, "config.json");
}

/// Returns a LLaMA of sizes 100, 8, 12, 2 layers, 4 heads, with `more` keys.
inline LlamaConfig load_with(const std::string& more) {
  return parse(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "vocab_size": 100, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
    "num_attention_heads": 4, "torch_dtype": "bfloat16", "use_cache": true)" +
               (more.empty() ? "" : ", " + more) + "}");
}

inline std::string complaint_with(const std::string& more) {
  try {
    load_with(more);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

/// Returns the text of a Mistral with the same sizes, and `more` keys.
inline std::string mistral_with(const std::string& more) {
  return R"({"architectures": ["MistralForCausalLM"], "model_type": "mistral",
    "vocab_size": 100, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
    "head_dim": 2)" +
         std::string(more.find("num_attention_heads") == more.npos
                         ? R"(, "num_attention_heads": 16)"
                         : "") +
         (more.empty() ? "" : ", " + more) + "}";
}

/// Returns a LLaMA of 3 layers that no file describes.
inline LlamaConfig small_model() {
  LlamaConfig c;
  c.vocab_size = 11;
  c.hidden_size = 8;
  c.intermediate_size = 6;
  c.num_hidden_layers = 3;
  c.num_attention_heads = 4;
  return c;
}

}  // namespace strata::test
