// Reads blocks of a checkpoint element by element of its dtypes, through windows that are verified.

#include "checkpoint/checkpoint_weights.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "checkpoint/verified_file.h"
#include "strata/base/convert.h"
#include "strata/base/error.h"
#include "strata/base/narrow.h"
#include "strata/checkpoint/model_folder.h"
#include "strata/model/families.h"

namespace strata {
namespace {

bool is_weights(const std::string& path) { return path.ends_with(".safetensors"); }

template <class T>
T element(std::span<const std::byte> bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <class To, class Value>
void store(std::span<std::byte> out, std::size_t count, const Value& value) {
  for (std::size_t i = 0; i < count; ++i) {
    const To element(value(i));
    std::memcpy(out.data() + i * sizeof(To), &element, sizeof(To));
  }
}

/// Writes `count` elements of `weights` as `to`; bf16 ones are joined with `low` if there is any.
void convert(DType from, std::span<const std::byte> weights, std::span<const std::byte> low,
             DType to, std::size_t count, std::span<std::byte> out) {
  const auto store_all = [&](const auto& value) {
    if (to == DType::kF32) return store<float>(out, count, value);
    store<Bf16>(out, count, value);
  };
  if (from == DType::kF64) {
    return store_all(
        [&](std::size_t i) { return static_cast<float>(element<double>(weights, i)); });
  }
  if (from == DType::kF32) {
    return store_all([&](std::size_t i) { return element<float>(weights, i); });
  }
  if (low.empty()) {
    return store_all([&](std::size_t i) { return static_cast<float>(element<Bf16>(weights, i)); });
  }
  store_all([&](std::size_t i) {
    return join_f32({element<std::uint16_t>(weights, i), element<std::int16_t>(low, i)});
  });
}

/// Returns the layout of a whole model in a checkpoint. Whoever claims more layers than there are
/// files gets no layout of them made.
ModelLayout layout_of(const FoundCheckpoint& checkpoint, const LlamaConfig& model) {
  if (const std::optional<BaseWeights>& base = checkpoint.manifest.base) {
    throw IoError(checkpoint.folder.string() + ": holds the adapters of " +
                  (base->folder.empty() ? "a model with random weights" : base->folder) +
                  " alone, and no whole model; give --adapter-only to export them");
  }
  if (std::cmp_greater(model.num_hidden_layers, checkpoint.manifest.files.size())) {
    throw IoError(checkpoint.folder.string() + ": has fewer files than its model layers");
  }
  return make_layout(spec_of(model));
}

/// Returns what the window of a file has of a part of the block from this element on.
std::span<const std::byte> rest_of(VerifiedFile& file, const StateFile& layout, StatePart part,
                                   std::size_t element_bytes, std::int64_t element) {
  for (const FileRun& run : layout.runs) {
    if (run.part != part || element < run.begin || element >= run.begin + run.count) continue;
    return file.from(run.offset + narrow<std::uint64_t>(element - run.begin) * element_bytes);
  }
  throw std::logic_error("no file has element " + std::to_string(element) + " of its block");
}

}  // namespace

/// The sources of a block, and where its elements lie in them.
struct CheckpointWeights::Sources {
  VerifiedFile weights;
  std::optional<VerifiedFile> low;
  const BlockFiles& layout;
};

CheckpointWeights::CheckpointWeights(const Files& files, const FoundCheckpoint& checkpoint,
                                     const LlamaConfig& model, WindowBuffers& buffers)
    : CheckpointWeights(files, checkpoint, layout_of(checkpoint, model), buffers) {}

CheckpointWeights::CheckpointWeights(const Files& files, const FoundCheckpoint& checkpoint,
                                     const ModelLayout& layout, WindowBuffers& buffers)
    : files_(files),
      checkpoint_(checkpoint),
      buffers_(buffers),
      layout_(make_checkpoint_layout(layout, checkpoint.manifest.types)) {
  for (const ManifestFile& file : manifest().files) files_of_[file.path] = &file;
  for (const BlockFiles& block : layout_.blocks) {
    for (const StateFile* file : block.files()) static_cast<void>(entry(*file));
  }
}

void CheckpointWeights::require(DType dtype) const {
  if (dtype != DType::kF32 || !types().are_weights_alone() || types().weight != DType::kBF16) {
    return;
  }
  throw IoError(checkpoint_.folder.string() +
                ": holds weights alone, without the low halves of the masters; export it as "
                "bf16, or a whole checkpoint as f32");
}

const ManifestFile& CheckpointWeights::entry(const StateFile& file) const {
  const auto found = files_of_.find(file.path);
  if (found != files_of_.end() && found->second->bytes == file.bytes) return *found->second;
  throw IoError((checkpoint_.folder / file.path).string() +
                ": is not in the manifest with the size that a file of this model has; the "
                "checkpoint is of another model");
}

void CheckpointWeights::verify_small_files() const {
  for (const ManifestFile& file : manifest().files) {
    if (!file.path.starts_with(kModelFolder) || is_weights(file.path)) continue;
    VerifiedFile in(files_, checkpoint_.folder, file, buffers_);
    for (std::uint64_t at = 0; at < file.bytes;) at += in.from(at).size();
  }
}

CheckpointWeights::Fill CheckpointWeights::fill(BlockId block, DType dtype) const {
  const BlockFiles& files = layout_.blocks[block];
  const auto open = [&](const StateFile& file) {
    return VerifiedFile(files_, checkpoint_.folder, entry(file), buffers_);
  };
  const std::shared_ptr<Sources> sources(new Sources{open(files.model), {}, files});
  if (types().bytes_of(StatePart::kLow) > 0 && dtype != types().weight) {
    sources->low.emplace(files_, checkpoint_.folder, entry(*files.state), buffers_);
  }
  return [this, sources, dtype](std::int64_t begin, std::span<std::byte> out) {
    convert_elements(*sources, dtype, begin, out);
  };
}

void CheckpointWeights::convert_elements(Sources& sources, DType to, std::int64_t begin,
                                         std::span<std::byte> out) const {
  const std::size_t size = size_of(to);
  const std::size_t weight_bytes = types().bytes_of(StatePart::kWeight);
  const std::size_t low_bytes = types().bytes_of(StatePart::kLow);
  while (!out.empty()) {
    const auto weights =
        rest_of(sources.weights, sources.layout.model, StatePart::kWeight, weight_bytes, begin);
    std::size_t count = std::min(weights.size() / weight_bytes, out.size() / size);
    std::span<const std::byte> low;
    if (sources.low) {
      low = rest_of(*sources.low, *sources.layout.state, StatePart::kLow, low_bytes, begin);
      count = std::min(count, low.size() / low_bytes);
    }
    if (count == 0) {
      throw IoError(sources.weights.path().string() +
                    ": the manifest cuts this file within an element");
    }
    convert(types().weight, weights, low, to, count, out);
    begin += narrow<std::int64_t>(count);
    out = out.subspan(count * size);
  }
}

}  // namespace strata
