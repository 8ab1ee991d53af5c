// Hashes a sample of a model's weights, as f64, tensor by tensor in the order of the layout.

#include "strata/checkpoint/base_weights.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/random.h"

namespace strata {

std::uint64_t hash_of_base(const SafetensorsDirectory& files, const ModelLayout& layout,
                           Form form) {
  constexpr std::int64_t kValues = 256;
  std::uint64_t hash = 0;
  const auto add = [&hash](std::span<const std::byte> bytes) { hash = mix64(hash ^ xxh3(bytes)); };
  for (const Block& block : layout.blocks) {
    if (block.adapter) continue;
    const bool in_nf4 = form == Form::kNf4 && block.kind == UnitKind::kLayer;
    for (const Segment& segment : block.segments) {
      for (const SourceTensor& source : segment.sources) {
        const std::vector<std::int64_t> shape = segment.shape_of(source);
        std::vector<double> values(
            static_cast<std::size_t>(std::min(kValues, source.rows * segment.cols)));
        files.read(source.name, 0, std::span(values));
        add(std::as_bytes(std::span(source.name)));
        add(std::as_bytes(std::span(shape)));
        add(std::as_bytes(std::span(values)));
        const StoredNf4* const stored = in_nf4 ? files.in_4_bits(source.name) : nullptr;
        if (stored != nullptr && stored->has_parts()) add(std::as_bytes(std::span("codes")));
      }
    }
  }
  return hash;
}

std::uint64_t hash_of_model(std::uint64_t weights, const LlamaConfig& config) {
  LlamaConfig computing = config;
  computing.initializer_range = LlamaConfig().initializer_range;
  computing.max_position_embeddings = LlamaConfig().max_position_embeddings;
  // A checkpoint's config.json leaves out a scaling that changes nothing.
  const auto& scaling = computing.rope_scaling;
  if (scaling &&
      (scaling->rope_type == RopeType::kDefault || scaling->rope_type == RopeType::kDynamic)) {
    computing.rope_scaling.reset();
  }
  const std::string text = write_fields(computing);
  return mix64(weights ^ xxh3(std::as_bytes(std::span(text.data(), text.size()))));
}

void require_same_base(const BaseWeights& saved, const BaseWeights& now) {
  if (saved.hash == now.hash) return;
  const auto text = [](const BaseWeights& base) {
    return base.folder.empty() ? std::string("random ones") : "those of " + base.folder;
  };
  throw ConfigError("model.path: the adapters of the checkpoint were trained for other weights, " +
                    text(saved) + ", and the run has " + text(now) +
                    ", which differ; name the folder with the weights that they are for");
}

}  // namespace strata
