// Lays out the parameters of a model: which segments a block has, in which order, and which tensors
// of a Hugging Face model fill them.

#include "strata/model/layout.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>
#include <variant>

#include "strata/base/bytes.h"
#include "strata/model/peft_config.h"

namespace strata {

namespace {

std::int64_t aligned(std::int64_t elements) {
  return static_cast<std::int64_t>(
      round_up(static_cast<std::size_t>(elements), Segment::kAlignment));
}

/// Appends segments to a block and keeps their offsets aligned.
class BlockBuilder {
 public:
  BlockBuilder(std::string name, UnitKind kind, UnitId unit) {
    block_.name = std::move(name);
    block_.kind = kind;
    block_.unit = unit;
  }

  void matrix(const std::string& name, std::int64_t cols, std::vector<SourceTensor> sources,
              Initializer initializer = Initializer::kNormal) {
    std::int64_t rows = 0;
    for (const SourceTensor& source : sources) rows += source.rows;
    add({.name = block_.name + "." + name,
         .rows = rows,
         .cols = cols,
         .decay = true,
         .initializer = initializer,
         .sources = std::move(sources)});
  }
  /// Adds the weight of a norm, which begins so that the norm multiplies by 1.
  void norm(const std::string& name, std::int64_t cols, const std::string& source, double offset) {
    if (offset != 0) return bias(name, {{source, cols}});
    add({.name = block_.name + "." + name,
         .rows = 1,
         .cols = cols,
         .decay = false,
         .initializer = Initializer::kOnes,
         .sources = {{source, 1}}});
  }
  /// Adds a vector that begins as 0.
  void bias(const std::string& name, std::vector<SourceTensor> sources) {
    std::int64_t rows = 0;
    for (const SourceTensor& source : sources) rows += source.rows;
    add({.name = block_.name + "." + name,
         .rows = rows,
         .cols = 1,
         .decay = false,
         .initializer = Initializer::kZeros,
         .sources = std::move(sources)});
  }
  /// Makes it a block of adapters.
  void adapts() { block_.adapter = true; }
  /// Lets it be trained beside adapters.
  void trains_whole() { block_.whole = true; }
  [[nodiscard]] bool empty() const { return block_.segments.empty(); }
  Block build() { return std::move(block_); }

 private:
  void add(Segment segment) {
    segment.offset = block_.elements;
    block_.elements += aligned(segment.elements());
    block_.segments.push_back(std::move(segment));
  }
  Block block_;
};

/// The order of a layer's weights in its block, as far as it has them; biases come after them, in
/// the order of LinearId. Checkpoints have it as well.
constexpr std::variant<NormId, LinearId> kLayerWeights[] = {
    NormId::kAttention,    LinearId::kQkv,  LinearId::kAttentionOut, NormId::kMlp,
    LinearId::kGateUp,     LinearId::kDown, NormId::kQuery,          NormId::kKey,
    NormId::kAttentionOut, NormId::kMlpOut};
static_assert(std::size(kLayerWeights) == kNorms + kLinears);

Block layer_block(const ModelSpec& spec, int number) {
  const LayerSpec& layer = spec.layer(number);
  const std::string prefix = spec.layer_prefix + std::to_string(number) + ".";
  BlockBuilder b("layers." + std::to_string(number), UnitKind::kLayer, UnitId(number + 1));
  const auto add_norm = [&](const Norm& norm) {
    b.norm(std::string(name_of(norm.id)), norm.width, prefix + norm.source, spec.norm_offset);
  };
  const auto of_layer = [&](std::vector<SourceTensor> sources) {
    for (SourceTensor& source : sources) source.name = prefix + source.name;
    return sources;
  };
  for (const std::variant<NormId, LinearId>& weight : kLayerWeights) {
    for (const Norm& norm : layer.norms) {
      if (weight == std::variant<NormId, LinearId>(norm.id)) add_norm(norm);
    }
    for (const Linear& linear : layer.linears) {
      if (weight == std::variant<NormId, LinearId>(linear.id)) {
        b.matrix(std::string(name_of(linear.id)), linear.in, of_layer(linear.sources));
      }
    }
  }
  for (const EnumName<LinearId>& bias : kBiasNames) {
    for (const Linear& linear : layer.linears) {
      if (linear.id != bias.value || !linear.has_bias()) continue;
      b.bias(std::string(bias.name), of_layer(linear.bias_sources));
    }
  }
  return b.build();
}

/// Makes the block of a layer's adapters, which has no segments if the layer has none. Of a linear
/// it has A of all adapted sources in one segment, which are multiplied by the same x, and a
/// segment for each B.
BlockBuilder adapter_block(const ModelSpec& spec, int number) {
  const std::string prefix = spec.layer_prefix + std::to_string(number) + ".";
  BlockBuilder b("layers." + std::to_string(number) + ".adapter", UnitKind::kLayer,
                 UnitId(number + 1));
  b.adapts();
  for (const Linear& linear : spec.layer(number).linears) {
    if (linear.adapters.empty()) continue;
    std::vector<SourceTensor> a;
    for (const Adapter& adapter : linear.adapters) {
      a.push_back(
          {peft_name(prefix + linear.sources.at(adapter.source).name, "lora_A"), adapter.rank});
    }
    b.matrix(adapter_segment_a(linear.id), linear.in, std::move(a), Initializer::kAdapterA);
    for (const Adapter& adapter : linear.adapters) {
      const SourceTensor& source = linear.sources.at(adapter.source);
      b.matrix(adapter_segment_b(linear.id, adapter.source), adapter.rank,
               {{peft_name(prefix + source.name, "lora_B"), source.rows}}, Initializer::kAdapterB);
    }
  }
  return b;
}

/// Returns the blocks of the head: one, or what stays and then what is trained beside adapters.
std::vector<Block> head_blocks(const ModelSpec& spec) {
  const WholeModules& whole = spec.whole;
  const bool apart = !spec.tied() && whole.final_norm != whole.projection;
  const UnitId unit(spec.layers() + 1);
  BlockBuilder own("head", UnitKind::kHead, unit);
  BlockBuilder trained("head.whole", UnitKind::kHead, unit);
  trained.trains_whole();
  BlockBuilder& of_norm = apart && whole.final_norm ? trained : own;
  of_norm.norm("norm", spec.width, spec.final_norm, spec.norm_offset);
  if (!spec.tied()) {
    BlockBuilder& of_projection = apart && whole.projection ? trained : own;
    of_projection.matrix("projection", spec.width, {{spec.projection, spec.vocabulary}});
  }
  if (!apart && whole.final_norm) own.trains_whole();
  std::vector<Block> blocks{own.build()};
  if (apart) blocks.push_back(trained.build());
  return blocks;
}

}  // namespace

std::string adapter_tensor(const Block& block, const SourceTensor& source) {
  return block.whole ? peft_name(source.name) : source.name;
}

std::string adapter_segment_a(LinearId id) { return std::string(name_of(id)) + "_a"; }
std::string adapter_segment_b(LinearId id, std::size_t source) {
  return std::string(name_of(id)) + "_b" + std::to_string(source);
}

std::vector<std::int64_t> Segment::shape_of(const SourceTensor& source) const {
  switch (initializer) {
    case Initializer::kNormal:
    case Initializer::kAdapterA:
    case Initializer::kAdapterB: return {source.rows, cols};
    case Initializer::kOnes: return {cols};
    case Initializer::kZeros: return {source.rows};
  }
  throw std::logic_error("segment " + name + " begins as nothing");
}

std::int64_t Block::shard_elements(int ranks) const {
  return aligned((elements + ranks - 1) / ranks);
}

int ModelLayout::gradient_sources(BlockId block) const {
  if (blocks[block].kind != UnitKind::kEmbedding) return 1;
  return 1 + static_cast<int>(std::ranges::count(units[head()].blocks, block));
}

ModelLayout make_layout(const ModelSpec& spec) {
  spec.require_common();
  ModelLayout layout;
  BlockBuilder embedding("embedding", UnitKind::kEmbedding, UnitId(0));
  embedding.matrix("table", spec.width, {{spec.embedding, spec.vocabulary}});
  if (spec.whole.embedding) embedding.trains_whole();
  const BlockId table = layout.blocks.push_back(embedding.build());
  layout.units.push_back({.kind = UnitKind::kEmbedding, .layer = -1, .blocks = {table}});
  for (int layer = 0; layer < spec.layers(); ++layer) {
    const BlockId own = layout.blocks.push_back(layer_block(spec, layer));
    layout.units.push_back({.kind = UnitKind::kLayer, .layer = layer, .blocks = {own}});
  }
  Unit last{.kind = UnitKind::kHead, .layer = -1, .blocks = {}};
  for (Block& block : head_blocks(spec)) {
    last.blocks.push_back(layout.blocks.push_back(std::move(block)));
  }
  if (spec.tied()) last.blocks.push_back(table);
  layout.units.push_back(std::move(last));
  for (int layer = 0; layer < spec.layers(); ++layer) {
    BlockBuilder adapters = adapter_block(spec, layer);
    if (adapters.empty()) continue;
    const BlockId own = layout.blocks.push_back(adapters.build());
    layout.units[layout.unit_of_layer(layer)].blocks.push_back(own);
  }
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
        runs.push_back({&block, &segment, &source, at - first, at, count});
        at += count;
      }
      first = last;
    }
  }
  return runs;
}

}  // namespace strata
