// Tests that tensors which other programs would use are never left out in silence.

#include "strata/model/weights_check.h"

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/model/families.h"
#include "support/catch.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// A tensor of the test's file: `values` f32 numbers, all `value`, under any dtype's name.
struct Tensor {
  std::string name;
  std::int64_t values = 1;
  float value = 0;
  std::string dtype = "F32";
};

/// Writes the tensors as a model folder and returns what check_weights says of them.
std::string check(const std::vector<Tensor>& tensors, const LlamaConfig& model) {
  const fs::path folder =
      fs::temp_directory_path() / ("strata_weights_check_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  std::string header = "{";
  std::string data;
  for (const Tensor& t : tensors) {
    const std::size_t begin = data.size();
    for (std::int64_t i = 0; i < t.values; ++i) {
      data.append(reinterpret_cast<const char*>(&t.value), sizeof t.value);
    }
    header += (header.size() > 1 ? ",\"" : "\"") + t.name + R"(":{"dtype":")" + t.dtype +
              R"(","shape":[)" + std::to_string(t.values) + R"(],"data_offsets":[)" +
              std::to_string(begin) + "," + std::to_string(data.size()) + "]}";
  }
  header += "}";
  const std::uint64_t length = header.size();
  std::ofstream out(folder / "model.safetensors", std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), sizeof length);
  out << header << data;
  out.close();
  std::string said;
  try {
    said = check_weights(SafetensorsDirectory(folder), make_layout(spec_of(model)));
  } catch (const IoError& e) {
    said = std::string("refused: ") + e.what();
  }
  fs::remove_all(folder);
  return said;
}

LlamaConfig model(bool tied) {
  LlamaConfig c;
  c.vocab_size = 5;
  c.hidden_size = 4;
  c.intermediate_size = 6;
  c.num_hidden_layers = 1;
  c.num_attention_heads = 2;
  c.tie_word_embeddings = tied;
  return c;
}

/// All tensors of the model, and `more`.
std::vector<Tensor> weights(bool tied, const std::vector<Tensor>& more = {}) {
  std::vector<Tensor> tensors{{"model.embed_tokens.weight", 20, 1.0f}, {"model.norm.weight", 4}};
  if (!tied) tensors.push_back({"lm_head.weight", 20, 2.0f});
  for (const char* name :
       {"input_layernorm", "post_attention_layernorm", "self_attn.q_proj", "self_attn.k_proj",
        "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
    tensors.push_back({"model.layers.0." + std::string(name) + ".weight"});
  }
  tensors.insert(tensors.end(), more.begin(), more.end());
  return tensors;
}

TEST_CASE("weights that are all used need no word") {
  CHECK(check(weights(false), model(false)).empty());
  CHECK(check(weights(true), model(true)).empty());
}

TEST_CASE("a tied head that is stored may be the embedding again and nothing else") {
  CHECK(check(weights(true, {{"lm_head.weight", 20, 1.0f}}), model(true)).empty());
  for (const Tensor& head :
       {Tensor{"lm_head.weight", 20, 1.5f}, Tensor{"lm_head.weight", 16, 1.0f}}) {
    CHECK_THAT(check(weights(true, {head}), model(true)),
               ContainsSubstring("refused") && ContainsSubstring("lm_head.weight") &&
                   ContainsSubstring("tie_word_embeddings"));
  }
}

TEST_CASE("tensors that nothing uses are counted and the first ones named") {
  const std::string said = check(weights(false, {{"model.layers.0.self_attn.rotary_emb.inv_freq"},
                                                 {"model.layers.1.mlp.up_proj.weight"},
                                                 {"score.weight"},
                                                 {"vision.weight"}}),
                                 model(false));
  CHECK(said ==
        "the weights have tensors that nothing uses (4): "
        "model.layers.0.self_attn.rotary_emb.inv_freq, model.layers.1.mlp.up_proj.weight, "
        "score.weight, ...");
}

TEST_CASE("tensors for images are counted and left out, with their biases") {
  CHECK(check(weights(false, {{"vision_tower.vision_model.post_layernorm.bias"},
                              {"model.multi_modal_projector.norm.weight"}}),
              model(false)) ==
        "the weights have 2 tensors for images, which are left out: the text part is trained, "
        "saved and exported");
  CHECK_THAT(check(weights(false, {{"vision_tower.a"}, {"score.weight"}}), model(false)),
             ContainsSubstring("have 1 tensors for images") &&
                 ContainsSubstring("; the weights have tensors that nothing uses (1)"));
}

TEST_CASE("a tensor of another architecture's computation is refused") {
  for (const char* name :
       {"model.layers.0.self_attn.q_norm.weight", "model.layers.0.self_attn.q_proj.bias",
        "lm_head.bias", "model.layers.0.mlp.up_proj.weight_scale"}) {
    CHECK_THAT(check(weights(false, {{name}}), model(false)),
               ContainsSubstring("refused") && ContainsSubstring(name));
  }
}

TEST_CASE("a bias that the config asks for is needed") {
  LlamaConfig biased = model(false);
  biased.model_type = ModelType::kQwen2;
  std::vector<Tensor> tensors = weights(false);
  for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
    CHECK_THAT(check(tensors, biased),
               ContainsSubstring("refused") && ContainsSubstring(std::string(name) + ".bias"));
    tensors.push_back({"model.layers.0.self_attn." + std::string(name) + ".bias"});
  }
  CHECK(check(tensors, biased).empty());
}

TEST_CASE("a dtype that strata does not read is refused only where the tensor is needed") {
  CHECK_THAT(check(weights(false, {{"extra", 2, 0, "F8_E4M3"}}), model(false)),
             ContainsSubstring("(1): extra"));
  std::vector<Tensor> tensors = weights(false);
  tensors.front().dtype = "F8_E4M3";
  CHECK_THAT(check(tensors, model(false)), ContainsSubstring("refused") &&
                                               ContainsSubstring("model.embed_tokens.weight") &&
                                               ContainsSubstring("F8_E4M3 is not supported"));
}

}  // namespace
}  // namespace strata
