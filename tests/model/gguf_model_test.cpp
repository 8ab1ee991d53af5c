// Tests what llama.cpp is told of a model: names and orders of tensors, keys that scale rotations,
// and refusals, by hand from llama.cpp's architectures. tests/e2e/gguf_test.py compares whole
// files.

#include "strata/model/gguf_model.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "support/catch.h"
#include "support/tiny_model.h"

namespace strata {
namespace {

LlamaConfig model_of(ModelType type) {
  LlamaConfig m = test::tiny_model();  // C 20, F 27, H 4, K 2, D 6, V 61, 3 layers
  m.model_type = type;
  return m;
}

const GgufPlace& place(const GgufModel& model, const std::string& source) {
  const auto found = std::ranges::find(model.tensors, source, &GgufPlace::source);
  REQUIRE(found != model.tensors.end());
  return *found;
}

std::string refusal(const LlamaConfig& config) {
  try {
    static_cast<void>(gguf_model_of(config));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a LLaMA's queries and keys are interleaved for llama.cpp, a Qwen3's are not") {
  const std::string key = "model.layers.2.self_attn.k_proj.weight";
  const GgufModel llama = gguf_model_of(model_of(ModelType::kMistral));
  CHECK(llama.architecture == "llama");
  CHECK(place(llama, key).name == "blk.2.attn_k.weight");
  CHECK(place(llama, key).shape == std::vector<std::int64_t>{12, 20});
  CHECK(place(llama, key).interleaved_rows == 6);
  CHECK(place(llama, "model.layers.2.self_attn.v_proj.weight").interleaved_rows == 0);
  const GgufModel qwen3 = gguf_model_of(model_of(ModelType::kQwen3));
  CHECK(qwen3.architecture == "qwen3");
  CHECK(place(qwen3, key).interleaved_rows == 0);
  CHECK(place(qwen3, "model.layers.0.self_attn.q_norm.weight").name == "blk.0.attn_q_norm.weight");
}

TEST_CASE("a tied model has no output.weight for llama.cpp") {
  const auto has_output = [](bool tied) {
    LlamaConfig m = model_of(ModelType::kLlama);
    m.tie_word_embeddings = tied;
    const GgufModel model = gguf_model_of(m);
    return std::ranges::count(model.tensors, std::string("output.weight"), &GgufPlace::name);
  };
  CHECK(has_output(false) == 1);
  CHECK(has_output(true) == 0);
}

TEST_CASE("what llama.cpp's architecture cannot express is refused with the key and a remedy") {
  LlamaConfig biased = model_of(ModelType::kQwen3);
  biased.attention_bias = true;
  CHECK(refusal(biased).find("attention_bias is true") != std::string::npos);
  CHECK(refusal(biased).find("--format hf") != std::string::npos);

  CHECK(refusal(model_of(ModelType::kQwen2)).find("head_dim is 6") != std::string::npos);

  LlamaConfig scaled = model_of(ModelType::kQwen3);
  scaled.rope_scaling = RopeScaling{.rope_type = RopeType::kLlama3};
  CHECK(refusal(scaled).find("rope_scaling.rope_type is llama3") != std::string::npos);
  scaled.model_type = ModelType::kLlama;
  CHECK(refusal(scaled).empty());
  CHECK(gguf_model_of(scaled).rope_factors.size() == 3);
  scaled.rope_scaling->rope_type = RopeType::kDynamic;
  CHECK(refusal(scaled).find("rope_scaling to null") != std::string::npos);
  scaled.rope_scaling = RopeScaling{.rope_type = RopeType::kYarn, .truncate = false};
  CHECK(refusal(scaled).find("rope_scaling.truncate") != std::string::npos);
}

}  // namespace strata
