// Writes the weights of a Hugging Face folder as strata's folders have them. The tensors of a block
// lie anywhere in the files that are read, so each slice is looked up by its name.

#include "strata/checkpoint/import_model.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "checkpoint/model_writer.h"
#include "strata/base/narrow.h"
#include "strata/checkpoint/checkpoint_layout.h"
#include "strata/model/weights_check.h"

namespace strata {
namespace {

/// Fills `out` with elements of a block from `begin` on, none of which are in its gaps.
template <class T>
void read_block(const SafetensorsDirectory& weights, const Block& block, std::int64_t begin,
                std::span<std::byte> out) {
  constexpr std::int64_t kAnyLength = std::numeric_limits<std::int64_t>::max();
  const std::span to(reinterpret_cast<T*>(out.data()), out.size() / sizeof(T));
  const std::int64_t end = begin + narrow<std::int64_t>(to.size());
  for (const SourceRun& run : source_runs(block, begin, end, kAnyLength)) {
    const std::span<T> part = to.subspan(static_cast<std::size_t>(run.block_begin - begin),
                                         static_cast<std::size_t>(run.count));
    weights.read(run.source->name, run.source_begin, part);
    require_finite(run.source->name, run.source_begin, std::span<const T>(part));
  }
}

}  // namespace

void import_model(Files& files, const ModelImport& what, ThreadPool& pool) {
  const CheckpointLayout target =
      make_checkpoint_layout(what.layout, {.weight = what.weight, .moment = {}});
  ModelWriter writer(files, what.to, pool, 1, what.progress);
  writer.write_small(
      model_folder_files(target, what.layout, what.model, files_of_model(what.from)));
  writer.write_weights(target, [&](BlockId b) {
    return [&what, &block = what.layout.blocks[b]](std::int64_t begin, std::span<std::byte> out) {
      if (what.weight == DType::kF32) return read_block<float>(what.weights, block, begin, out);
      read_block<Bf16>(what.weights, block, begin, out);
    };
  });
}

}  // namespace strata
