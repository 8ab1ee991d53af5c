// Writes the weights of a Hugging Face folder as strata's folders have them. The tensors of a block
// lie anywhere in the files that are read, so each slice is looked up by its name.

#include "strata/checkpoint/import_model.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include "checkpoint/model_writer.h"
#include "checkpoint/read_block.h"
#include "strata/checkpoint/checkpoint_layout.h"

namespace strata {

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
