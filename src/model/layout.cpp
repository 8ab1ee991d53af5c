// Lays out a LLaMA's parameters: which segments a block has, in which order, and which tensors of a
// Hugging Face model fill them. Matrices that are multiplied together (q, k, v; gate, up) are one
// segment, so each pair or triple is one product.

#include "strata/model/layout.h"

#include <algorithm>

#include "strata/base/bytes.h"

namespace strata {

namespace {

std::int64_t aligned(std::int64_t elements) {
  return static_cast<std::int64_t>(
      round_up(static_cast<std::size_t>(elements), Segment::kAlignment));
}

/// Appends segments to a block and keeps their offsets aligned.
class BlockBuilder {
 public:
  BlockBuilder(std::string name, UnitKind kind) {
    block_.name = std::move(name);
    block_.kind = kind;
  }

  void matrix(const std::string& name, std::int64_t cols, std::vector<SourceTensor> sources) {
    std::int64_t rows = 0;
    for (const SourceTensor& source : sources) rows += source.rows;
    add({.name = block_.name + "." + name,
         .rows = rows,
         .cols = cols,
         .decay = true,
         .initializer = Initializer::kNormal,
         .sources = std::move(sources)});
  }
  void norm(const std::string& name, std::int64_t cols, const std::string& source) {
    add({.name = block_.name + "." + name,
         .rows = 1,
         .cols = cols,
         .decay = false,
         .initializer = Initializer::kOnes,
         .sources = {{source, 1}}});
  }
  Block build() { return std::move(block_); }

 private:
  void add(Segment segment) {
    segment.offset = block_.elements;
    block_.elements += aligned(segment.elements());
    block_.segments.push_back(std::move(segment));
  }
  Block block_;
};

Block layer_block(const LlamaConfig& c, std::int64_t layer) {
  const std::string hf = "model.layers." + std::to_string(layer) + ".";
  const std::int64_t q = c.num_attention_heads * c.head_size();
  const std::int64_t kv = c.kv_heads() * c.head_size();
  BlockBuilder b("layers." + std::to_string(layer), UnitKind::kLayer);
  b.norm("attention_norm", c.hidden_size, hf + "input_layernorm.weight");
  b.matrix("qkv", c.hidden_size,
           {{hf + "self_attn.q_proj.weight", q},
            {hf + "self_attn.k_proj.weight", kv},
            {hf + "self_attn.v_proj.weight", kv}});
  b.matrix("attention_out", q, {{hf + "self_attn.o_proj.weight", c.hidden_size}});
  b.norm("mlp_norm", c.hidden_size, hf + "post_attention_layernorm.weight");
  b.matrix("gate_up", c.hidden_size,
           {{hf + "mlp.gate_proj.weight", c.intermediate_size},
            {hf + "mlp.up_proj.weight", c.intermediate_size}});
  b.matrix("down", c.intermediate_size, {{hf + "mlp.down_proj.weight", c.hidden_size}});
  return b.build();
}

}  // namespace

std::int64_t Block::shard_elements(int ranks) const {
  return aligned((elements + ranks - 1) / ranks);
}

int ModelLayout::gradient_sources(BlockId block) const {
  const std::vector<BlockId>& of_head = units[head()].blocks;
  const auto tied = std::ranges::count(of_head.begin() + 1, of_head.end(), block);
  return 1 + static_cast<int>(tied);
}

ModelLayout make_layout(const LlamaConfig& c) {
  ModelLayout layout;
  BlockBuilder embedding("embedding", UnitKind::kEmbedding);
  embedding.matrix("table", c.hidden_size, {{"model.embed_tokens.weight", c.vocab_size}});
  const BlockId table = layout.blocks.push_back(embedding.build());
  layout.units.push_back({.kind = UnitKind::kEmbedding, .layer = -1, .blocks = {table}});
  for (int layer = 0; layer < c.num_hidden_layers; ++layer) {
    const BlockId own = layout.blocks.push_back(layer_block(c, layer));
    layout.units.push_back({.kind = UnitKind::kLayer, .layer = layer, .blocks = {own}});
  }
  BlockBuilder head("head", UnitKind::kHead);
  head.norm("norm", c.hidden_size, "model.norm.weight");
  if (!c.tie_word_embeddings) {
    head.matrix("projection", c.hidden_size, {{"lm_head.weight", c.vocab_size}});
  }
  Unit last{
      .kind = UnitKind::kHead, .layer = -1, .blocks = {layout.blocks.push_back(head.build())}};
  if (c.tie_word_embeddings) last.blocks.push_back(table);
  layout.units.push_back(std::move(last));
  return layout;
}

std::vector<SourceRun> source_runs(const Block& block, std::int64_t begin, std::int64_t end,
                                   std::int64_t longest) {
  std::vector<SourceRun> runs;
  for (const Segment& segment : block.segments) {
    std::int64_t first = segment.offset;
    for (const SourceTensor& source : segment.sources) {
      const std::int64_t last = first + source.rows * segment.cols;
      for (std::int64_t at = std::max(first, begin); at < std::min(last, end);) {
        const std::int64_t count = std::min({last - at, end - at, longest});
        runs.push_back({&segment, &source, at - first, at, count});
        at += count;
      }
      first = last;
    }
  }
  return runs;
}

}  // namespace strata
