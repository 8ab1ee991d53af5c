// Which linears get adapters, with which rank and scale, and what a model with adapters has in
// memory. The rules are those of PEFT's LoraConfig.

#include "strata/model/adapters.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/model/families.h"
#include "strata/model/layout.h"
#include "strata/model/unit_views.h"
#include "support/catch.h"
#include "support/tiny_model.h"

namespace strata {
namespace {

ModelSpec adapted(const AdapterConfig& config, int layers = 3) {
  LlamaConfig model = test::tiny_model();
  model.num_hidden_layers = layers;
  ModelSpec spec = spec_of(model);
  add_adapters(spec, config);
  return spec;
}

std::string complaint(const AdapterConfig& config) {
  try {
    (void)adapted(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("all-linear adapts every linear of every layer, and the kinds of layers stay one") {
  const ModelSpec spec = adapted({.rank = 4, .alpha = 12});
  CHECK(spec.kinds.size() == 1);
  CHECK(spec.adapted());
  for (const Linear& linear : spec.common().linears) {
    REQUIRE(linear.adapters.size() == linear.sources.size());
    for (std::size_t i = 0; i < linear.adapters.size(); ++i) {
      CHECK(linear.adapters[i] == Adapter{.source = i, .rank = 4, .scale = 3});
    }
  }
  CHECK(spec.largest_adapter_rank() == 12);  // of q, k and v
  CHECK(!spec_of(test::tiny_model()).adapted());
}

TEST_CASE("targets are ends of names from a dot on, and patterns give ranks and alphas") {
  const ModelSpec spec = adapted({.rank = 4,
                                  .alpha = 8,
                                  .rslora = true,
                                  .targets = {"q_proj", "self_attn.v_proj"},
                                  .rank_pattern = {"v_proj=9", "self_attn.v_proj=2"},
                                  .alpha_pattern = {"model.layers.0.self_attn.q_proj=2"}});
  REQUIRE(spec.kinds.size() == 2);  // layer 0 has another alpha
  CHECK(spec.kind == std::vector<std::size_t>{0, 1, 1});
  const auto of = [&](int layer) { return spec.layer(layer).linear(LinearId::kQkv).adapters; };
  CHECK(of(0) == std::vector<Adapter>{{.source = 0, .rank = 4, .scale = 1},
                                      {.source = 2, .rank = 9, .scale = 8.0 / 3}});
  CHECK(of(1).front() == Adapter{.source = 0, .rank = 4, .scale = 4});
  for (const LinearId id : {LinearId::kAttentionOut, LinearId::kGateUp, LinearId::kDown}) {
    CHECK(spec.common().linear(id).adapters.empty());
  }
}

TEST_CASE("layers may be left out, and have no block of adapters then") {
  const ModelLayout layout = make_layout(adapted({.layers = {0, 2}}));
  CHECK(layout.blocks.size() == layout.units.size() + 2);
  CHECK(layout.units[UnitId(1)].blocks == std::vector<BlockId>{BlockId(1), BlockId(5)});
  CHECK(layout.units[UnitId(2)].blocks == std::vector<BlockId>{BlockId(2)});
  CHECK(layout.units[UnitId(3)].blocks == std::vector<BlockId>{BlockId(3), BlockId(6)});
  for (const BlockId b : layout.blocks.ids()) {
    const Block& block = layout.blocks[b];
    CHECK(layout.is_trained(b) == (b.value() > 4));
    CHECK(block.unit.value() == (b.value() > 4 ? 2 * b.value() - 9 : b.value()));
  }
}

TEST_CASE("modules outside of layers are trained whole beside adapters, and no others") {
  struct Case {
    std::vector<std::string> names;
    std::vector<std::string> trained;  // names of blocks, without adapters
    bool tied = false;
  };
  for (const Case& c :
       {Case{{}, {}}, Case{{"embed_tokens"}, {"embedding"}}, Case{{"lm_head"}, {"head.whole"}},
        Case{{"norm"}, {"head.whole"}}, Case{{"lm_head", "model.norm"}, {"head"}},
        Case{{"embed_tokens"}, {"embedding"}, true}, Case{{"lm_head"}, {"embedding"}, true},
        Case{{"norm", "lm_head", "model.embed_tokens"}, {"embedding", "head"}, true}}) {
    LlamaConfig model = test::tiny_model();
    model.tie_word_embeddings = c.tied;
    ModelSpec spec = spec_of(model);
    add_adapters(spec, {.layers = {0}, .modules_to_save = c.names});
    const ModelLayout layout = make_layout(spec);
    std::vector<std::string> trained;
    std::multiset<std::string> tensors;
    for (const BlockId b : layout.blocks.ids()) {
      const Block& block = layout.blocks[b];
      if (block.adapter) continue;
      if (layout.is_trained(b)) trained.push_back(block.name);
      for (const Segment& segment : block.segments) {
        for (const SourceTensor& source : segment.sources) tensors.insert(source.name);
      }
    }
    INFO((c.names.empty() ? "none" : c.names.front()) << ", tied " << c.tied);
    CHECK(trained == c.trained);
    std::multiset<std::string> all;
    for (const Block& block : make_layout(spec_of(model)).blocks) {
      for (const Segment& segment : block.segments) {
        for (const SourceTensor& source : segment.sources) all.insert(source.name);
      }
    }
    CHECK(tensors == all);
  }
}

TEST_CASE("a block of adapters has A and B of each module under PEFT's names") {
  const LlamaConfig model = test::tiny_model();
  const ModelLayout layout =
      make_layout(adapted({.rank = 2, .alpha = 2, .targets = {"q_proj", "v_proj", "down_proj"}}));
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const Segment& segment : layout.blocks[BlockId(6)].segments) {
    CHECK(segment.decay);
    for (const SourceTensor& source : segment.sources) {
      shapes[source.name] = segment.shape_of(source);
    }
  }
  const std::string attention = "base_model.model.model.layers.1.self_attn.";
  const std::string mlp = "base_model.model.model.layers.1.mlp.";
  const std::int64_t width = model.hidden_size;
  const std::int64_t inner = model.intermediate_size;
  const std::int64_t query = model.num_attention_heads * model.head_size();
  const std::int64_t kv = model.kv_heads() * model.head_size();
  CHECK(shapes == std::map<std::string, std::vector<std::int64_t>>{
                      {attention + "q_proj.lora_A.weight", {2, width}},
                      {attention + "q_proj.lora_B.weight", {query, 2}},
                      {attention + "v_proj.lora_A.weight", {2, width}},
                      {attention + "v_proj.lora_B.weight", {kv, 2}},
                      {mlp + "down_proj.lora_A.weight", {2, inner}},
                      {mlp + "down_proj.lora_B.weight", {width, 2}}});
}

TEST_CASE("a unit's views have its adapters, and those of a block without data are absent") {
  const ModelLayout layout = make_layout(adapted({.rank = 2, .targets = {"k_proj", "v_proj"}}));
  const Unit& unit = layout.units[UnitId(1)];
  std::vector<std::byte> base(static_cast<std::size_t>(layout.blocks[unit.blocks[0]].elements) * 4);
  std::vector<std::byte> own(static_cast<std::size_t>(layout.blocks[unit.blocks[1]].elements) * 4);
  const std::vector<std::byte*> both{base.data(), own.data()};
  const LayerWeights w = unit_views<ConstTensorView>(layout, unit, both, DType::kF32).layer;
  const AdapterViews<ConstTensorView>& qkv = w.adapter(LinearId::kQkv);
  CHECK(qkv.a.data == own.data());
  CHECK(qkv.a.shape == Shape{4, test::tiny_model().hidden_size});  // k above v
  CHECK(!qkv.b[0]);
  CHECK(qkv.b[1]);
  CHECK(qkv.b[2].shape == Shape{test::tiny_model().kv_heads() * test::tiny_model().head_size(), 2});
  CHECK(!w.adapter(LinearId::kDown).a);
  const std::vector<std::byte*> adapters{nullptr, own.data()};
  const LayerGradients d = unit_views<TensorView>(layout, unit, adapters, DType::kF32).layer;
  CHECK(d.adapter(LinearId::kQkv).a);
  CHECK(!d[LinearId::kQkv]);
  CHECK(!d[NormId::kAttention]);
}

TEST_CASE("adapters that a model cannot have are refused by key and remedy") {
  CHECK_THAT(complaint({.targets = {}}), ContainsSubstring("adapter.targets: names no module"));
  CHECK_THAT(complaint({.targets = {"proj"}}),
             ContainsSubstring("\"proj\" is no linear") &&
                 ContainsSubstring("q_proj, k_proj, v_proj, o_proj"));
  CHECK_THAT(complaint({.targets = {"all-linear", "q_proj"}}),
             ContainsSubstring("\"all-linear\" is no linear"));
  CHECK_THAT(complaint({.rank_pattern = {"q_proj=2.5"}}),
             ContainsSubstring("adapter.rank_pattern: \"q_proj=2.5\""));
  CHECK_THAT(complaint({.rank_pattern = {"q_proj"}}), ContainsSubstring("\"down_proj=16\""));
  CHECK_THAT(complaint({.alpha_pattern = {"q_proj=-1"}}),
             ContainsSubstring("adapter.alpha_pattern"));
  CHECK_THAT(complaint({.layers = {3}}), ContainsSubstring("adapter.layers"));
  CHECK_THAT(complaint({.targets = {"model.layers.0.mlp.up_proj"}, .layers = {1}}),
             ContainsSubstring("nothing would be trained"));
  CHECK_THAT(complaint({.layers = {0.5}}), ContainsSubstring("adapter.layers"));
  const auto saving = [](const std::string& name) {
    return complaint({.modules_to_save = {name}});
  };
  CHECK_THAT(saving("input_layernorm"),
             ContainsSubstring("adapter.modules_to_save: \"input_layernorm\" is a norm of layers"));
  CHECK_THAT(saving("down_proj"), ContainsSubstring("is a linear of layers"));
  CHECK_THAT(saving("head"), ContainsSubstring("take embed_tokens, lm_head or norm"));
  LlamaConfig tied = test::tiny_model();
  tied.tie_word_embeddings = true;
  ConfigProblems problems;
  check_adapters({.modules_to_save = {"lm_head"}, .ensures_tying = false}, spec_of(tied), problems);
  CHECK_THROWS_WITH(problems.throw_if_any("peft"), ContainsSubstring("ensure_weight_tying"));
}

}  // namespace strata
