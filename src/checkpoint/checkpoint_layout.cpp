// Says where each element lies in the files of a checkpoint. Weights follow each other without the
// gaps that align segments in memory, since safetensors allows none; flat tensors keep the gaps,
// so that a range of a block is one range of the file.

#include "strata/checkpoint/checkpoint_layout.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "checkpoint/safetensors_header.h"
#include "strata/base/bytes.h"
#include "strata/base/narrow.h"
#include "strata/checkpoint/files.h"

namespace strata {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// Makes one file: tensors are appended in the order in which they lie in it, then the header is
/// known, and with it every offset.
class StateFileBuilder {
 public:
  StateFileBuilder(std::string path, OrderedJson metadata)
      : header_{{"__metadata__", std::move(metadata)}} {
    file_.path = std::move(path);
  }

  /// Appends a tensor whose elements are those of the block from `begin` on. Those that its shape
  /// has beyond `count` are zeros.
  void tensor(const std::string& name, DType dtype, const std::vector<std::int64_t>& shape,
              StatePart part, std::int64_t begin, std::int64_t count) {
    std::uint64_t bytes = size_of(dtype);
    for (const std::int64_t extent : shape) bytes *= narrow<std::uint64_t>(extent);
    FileRun* const last = file_.runs.empty() ? nullptr : &file_.runs.back();
    if (last != nullptr && last->part == part && last->begin + last->count == begin) {
      last->count += count;  // contiguous in the file as well: only flat tensors have ends
    } else {
      file_.runs.push_back({.part = part, .begin = begin, .count = count, .offset = data_bytes_});
    }
    header_[name] = {{"dtype", stored_name(dtype)},
                     {"shape", shape},
                     {"data_offsets", {data_bytes_, data_bytes_ + bytes}}};
    data_bytes_ += bytes;
  }

  StateFile build() {
    file_.header = safetensors_header(header_);
    for (FileRun& run : file_.runs) run.offset += file_.header.size();
    file_.bytes = file_.header.size() + data_bytes_;
    return std::move(file_);
  }

 private:
  StateFile file_;
  OrderedJson header_;
  std::uint64_t data_bytes_ = 0;
};

std::string model_path(std::size_t number, std::size_t count) {
  char name[64];
  std::snprintf(name, sizeof(name), "model/model-%05zu-of-%05zu.safetensors", number, count);
  return name;
}

std::string adapter_path(const Block& block) {
  switch (block.kind) {
    case UnitKind::kEmbedding: return "adapter/embedding.safetensors";
    case UnitKind::kLayer: break;
    case UnitKind::kHead: return "adapter/head.safetensors";
  }
  return "adapter/layers." + std::to_string(block.unit.value() - 1) + ".safetensors";
}

StateFile model_file(const Block& block, DType weight, std::string path) {
  StateFileBuilder file(std::move(path), {{"format", "pt"}});
  constexpr std::int64_t kAnyLength = std::numeric_limits<std::int64_t>::max();
  for (const SourceRun& run : source_runs(block, 0, block.elements, kAnyLength)) {
    file.tensor(adapter_tensor(block, *run.source), weight, run.segment->shape_of(*run.source),
                StatePart::kWeight, run.block_begin, run.count);
  }
  return file.build();
}

StateFile state_file(const Block& block, const CheckpointTypes& types) {
  StateFileBuilder file("state/" + block.name + ".safetensors",
                        {{"block", block.name}, {"elements", std::to_string(block.elements)}});
  const auto padded = [&](std::int64_t entries, StatePart part) {
    const std::size_t multiple = kFileAlignment / types.bytes_of(part);
    return narrow<std::int64_t>(round_up(narrow<std::size_t>(entries), multiple));
  };
  const auto flat = [&](const std::string& name, DType dtype, StatePart part) {
    file.tensor(name, dtype, {padded(block.elements, part)}, part, 0, block.elements);
  };
  if (types.bytes_of(StatePart::kLow) > 0) flat("low", DType::kI16, StatePart::kLow);
  flat("m", *types.moment, StatePart::kM);
  if (types.bytes_of(StatePart::kV) > 0) flat("v", *types.moment, StatePart::kV);
  if (types.bytes_of(StatePart::kScale) > 0) {
    const std::int64_t blocks = (block.elements + kMomentBlock - 1) / kMomentBlock;
    file.tensor("scale", kMomentCode, {padded(blocks, StatePart::kScale), kMomentScales},
                StatePart::kScale, 0, blocks);
  }
  return file.build();
}

}  // namespace

std::size_t CheckpointTypes::bytes_of(StatePart part) const {
  switch (part) {
    case StatePart::kWeight: return size_of(weight);
    case StatePart::kLow:
      return moment && split && weight == DType::kBF16 ? size_of(DType::kI16) : 0;
    case StatePart::kM: return moment ? size_of(*moment) : 0;
    case StatePart::kV: return moment && moments > 1 ? size_of(*moment) : 0;
    case StatePart::kScale: return moment == kMomentCode ? kMomentScales : 0;
  }
  return 0;
}

std::vector<const StateFile*> BlockFiles::files() const {
  std::vector<const StateFile*> all;
  if (!model.path.empty()) all.push_back(&model);
  if (state) all.push_back(&*state);
  return all;
}

std::uint64_t CheckpointLayout::bytes() const {
  std::uint64_t sum = 0;
  for (const BlockFiles& block : blocks) {
    for (const StateFile* file : block.files()) sum += file->bytes;
  }
  return sum;
}

CheckpointLayout make_checkpoint_layout(const ModelLayout& layout, const CheckpointTypes& types) {
  CheckpointLayout result;
  result.types = types;
  const std::size_t count = layout.blocks.size();
  for (const BlockId id : layout.blocks.ids()) {
    const Block& block = layout.blocks[id];
    if (!layout.is_trained(id)) {
      result.blocks.push_back({});
      continue;
    }
    const std::string path =
        block.is_beside_base() ? adapter_path(block) : model_path(id.index() + 1, count);
    BlockFiles files{.model = model_file(block, types.weight, path), .state = {}};
    if (!types.are_weights_alone()) files.state = state_file(block, types);
    result.blocks.push_back(std::move(files));
  }
  return result;
}

std::vector<FileSlice> slices_of(const StateFile& file, const Block& block, int rank, int ranks,
                                 const CheckpointTypes& types) {
  if (rank < 0 || rank >= ranks) {
    throw std::invalid_argument("slices_of: no rank " + std::to_string(rank) + " of " +
                                std::to_string(ranks));
  }
  const std::int64_t shard = block.shard_elements(ranks);
  std::vector<FileSlice> slices;
  for (std::size_t i = 0; i < file.runs.size(); ++i) {
    const FileRun& whole = file.runs[i];
    const std::int64_t whole_end = whole.begin + whole.count;
    const std::int64_t shard_entries = shard / elements_of_entry(whole.part);
    const std::int64_t shard_begin = shard_entries * rank;
    const std::int64_t shard_end = shard_begin + shard_entries;
    FileRun own = whole;
    own.begin = std::max(whole.begin, shard_begin);
    own.count = std::min(whole_end, shard_end) - own.begin;
    if (own.count <= 0) continue;
    const std::uint64_t size = types.bytes_of(whole.part);
    own.offset += narrow<std::uint64_t>(own.begin - whole.begin) * size;
    std::uint64_t end = own.offset + narrow<std::uint64_t>(own.count) * size;
    if (own.begin + own.count == whole_end) {  // and so the zeros behind it
      end = i + 1 < file.runs.size() ? file.runs[i + 1].offset : file.bytes;
    }
    if (slices.empty() || slices.back().end != own.offset) {
      slices.push_back({.begin = own.offset, .end = end, .runs = {}});
    }
    slices.back().end = end;
    slices.back().runs.push_back(own);
  }
  return slices;
}

}  // namespace strata
