// Tests where state lies in a checkpoint's files. Every rank writes its slices, element by element,
// into a file that counts how often each byte is written; then strata's reader of safetensors must
// find in it what a formula says of each tensor's element.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/file_places.h"
#include "strata/base/dtype.h"
#include "strata/checkpoint/checkpoint_layout.h"
#include "strata/checkpoint/files.h"
#include "strata/model/families.h"
#include "strata/model/safetensors.h"
#include "support/catch.h"
#include "support/scratch_folder.h"
#include "support/tiny_model.h"

namespace strata {
namespace {

LlamaConfig tied_model() {
  LlamaConfig m = test::tiny_model();
  m.tie_word_embeddings = true;
  return m;
}

/// Fewer elements in a block than several ranks have in shards of 64.
LlamaConfig least_model() {
  LlamaConfig m;
  m.vocab_size = 1;
  m.hidden_size = 2;
  m.intermediate_size = 1;
  m.num_hidden_layers = 1;
  m.num_attention_heads = 1;
  return m;
}

/// Sizes that divide: no gaps between segments.
LlamaConfig even_model() {
  LlamaConfig m;
  m.vocab_size = 256;
  m.hidden_size = 64;
  m.intermediate_size = 128;
  m.num_hidden_layers = 2;
  m.num_attention_heads = 4;
  return m;
}

std::vector<LlamaConfig> models() {
  return {test::tiny_model(), tied_model(), least_model(), even_model()};
}

constexpr CheckpointTypes kAllTypes[] = {{DType::kBF16, DType::kF32}, {DType::kBF16, DType::kBF16},
                                         {DType::kF32, DType::kF32},  {DType::kF32, DType::kBF16},
                                         {DType::kBF16, kMomentCode}, {DType::kF64, DType::kF64}};

DType dtype_of(StatePart part, const CheckpointTypes& types) {
  if (part == StatePart::kWeight) return types.weight;
  if (part == StatePart::kScale) return kMomentCode;
  return part == StatePart::kLow ? DType::kI16 : types.moment.value();
}

/// What element `i` of a part of a block holds: an integer of 8 bits, which every dtype has.
int value_of(BlockId block, StatePart part, std::int64_t i) {
  return static_cast<int>((i * 37 + i / 251 + block.value() * 11 + static_cast<int>(part) * 5) %
                          127);
}

template <class T>
void store(T value, char* to) {
  std::memcpy(to, &value, sizeof(value));
}
void encode(int value, DType dtype, char* to) {
  switch (dtype) {
    case DType::kF64: return store(static_cast<double>(value), to);
    case DType::kF32: return store(static_cast<float>(value), to);
    case DType::kBF16: return store(Bf16(static_cast<float>(value)), to);
    case DType::kU8: return store(static_cast<std::uint8_t>(value), to);
    default: return store(static_cast<std::int16_t>(value), to);
  }
}

/// Returns a file as so many ranks write it, and checks that they write each byte once.
std::string written_by(const StateFile& file, BlockId id, const Block& block, int ranks,
                       const CheckpointTypes& types) {
  std::string content = file.header;
  content.resize(file.bytes, '?');
  std::string writes(file.header.size(), '\1');
  writes.resize(file.bytes, '\0');
  int outside = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t shard = block.shard_elements(ranks);
    for (const FileSlice& slice : slices_of(file, block, rank, ranks, types)) {
      CHECK(slice.begin < slice.end);
      CHECK_FALSE(slice.runs.empty());
      REQUIRE(slice.end <= file.bytes);
      // What is written twice stays marked.
      const std::uint64_t bytes = slice.end - slice.begin;
      const auto before = std::string_view(writes).substr(slice.begin, bytes);
      const bool again = before.find_first_not_of('\0') != std::string_view::npos;
      writes.replace(slice.begin, bytes, bytes, again ? '\2' : '\1');
      content.replace(slice.begin, bytes, bytes, '\0');
      for (const FileRun& run : slice.runs) {
        const DType dtype = dtype_of(run.part, types);
        CHECK(run.count > 0);
        const std::int64_t entries = shard / (run.part == StatePart::kScale ? 64 : 1);
        CHECK(run.begin >= entries * rank);
        CHECK(run.begin + run.count <= entries * (rank + 1));
        const std::size_t each = types.bytes_of(run.part);
        for (std::int64_t i = 0; i < run.count; ++i) {
          const std::uint64_t at = run.offset + static_cast<std::uint64_t>(i) * each;
          if (at < slice.begin || at + each > slice.end) {
            ++outside;
            continue;
          }
          // A scale is two entries: that of m and that of v.
          for (std::uint64_t byte = at; byte < at + each; byte += size_of(dtype)) {
            encode(value_of(id, run.part, run.begin + i), dtype, content.data() + byte);
          }
        }
      }
    }
  }
  CHECK(outside == 0);
  CHECK(writes.find_first_not_of('\1') == std::string::npos);
  return content;
}

template <class T>
std::vector<T> read_all(const SafetensorsFile& file, const std::string& name) {
  std::vector<T> values(static_cast<std::size_t>(file.info(name).elements));
  file.read(name, 0, std::span(values));
  return values;
}

/// Checks a model file against the block, tensor by tensor.
void check_model_file(const SafetensorsFile& file, BlockId id, const Block& block) {
  std::set<std::string> expected;
  for (const Segment& segment : block.segments) {
    std::int64_t at = segment.offset;
    for (const SourceTensor& source : segment.sources) {
      expected.insert(source.name);
      const bool norm = source.name.find("norm") != std::string::npos;
      const auto shape = norm ? std::vector{segment.cols} : std::vector{source.rows, segment.cols};
      CHECK(file.info(source.name).shape == shape);
      int wrong = 0;
      for (const double value : read_all<double>(file, source.name)) {
        wrong += value == value_of(id, StatePart::kWeight, at++) ? 0 : 1;
      }
      CHECK(wrong == 0);
    }
  }
  const std::vector<std::string> found = file.tensors();
  CHECK(std::set<std::string>(found.begin(), found.end()) == expected);
}

template <class T>
void check_flat(const SafetensorsFile& file, const std::string& name, StatePart part, BlockId id,
                const Block& block) {
  const StoredTensor& info = file.info(name);
  CHECK(info.shape.size() == 1);
  CHECK(info.offset % kFileAlignment == 0);
  CHECK(info.bytes % kFileAlignment == 0);
  const std::vector<T> values = read_all<T>(file, name);
  int wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    wrong += values[i] == static_cast<T>(at < block.elements ? value_of(id, part, at) : 0) ? 0 : 1;
  }
  CHECK(wrong == 0);
}

/// Checks a tensor of bytes, of which entry i of the block has `each`.
void check_bytes(const std::string& content, const SafetensorsFile& file, const std::string& name,
                 StatePart part, BlockId id, std::int64_t entries, std::size_t each) {
  const StoredTensor& info = file.entry(name);
  CHECK(info.unsupported == "U8");  // no tensor of a model has it
  CHECK(info.offset % kFileAlignment == 0);
  CHECK(info.bytes % kFileAlignment == 0);
  int wrong = 0;
  for (std::uint64_t i = 0; i < info.bytes; ++i) {
    const auto entry = static_cast<std::int64_t>(i / each);
    const int expected = entry < entries ? value_of(id, part, entry) : 0;
    wrong += content[info.offset + i] == static_cast<char>(expected) ? 0 : 1;
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("any number of ranks writes the same files, which hold every element in its place",
          "[one_thread]") {
  const ScratchFolder folder;
  const auto saved = [&](const std::string& content) {
    std::ofstream(folder.path() / "file", std::ios::binary) << content;
    return SafetensorsFile(folder.path() / "file");
  };
  for (const LlamaConfig& model : models()) {
    const ModelLayout layout = make_layout(spec_of(model));
    for (const CheckpointTypes& types : kAllTypes) {
      const CheckpointLayout files = make_checkpoint_layout(layout, types);
      REQUIRE(files.blocks.size() == layout.blocks.size());
      std::uint64_t bytes = 0;
      for (const BlockId id : layout.blocks.ids()) {
        const Block& block = layout.blocks[id];
        const BlockFiles& own = files.blocks[id];
        const std::string model_file = written_by(own.model, id, block, 1, types);
        const std::string state_file = written_by(*own.state, id, block, 1, types);
        for (int ranks = 2; ranks <= 5; ++ranks) {
          CHECK(written_by(own.model, id, block, ranks, types) == model_file);
          CHECK(written_by(*own.state, id, block, ranks, types) == state_file);
        }
        bytes += model_file.size() + state_file.size();
        check_model_file(saved(model_file), id, block);
        const SafetensorsFile state = saved(state_file);
        const bool split = types.weight == DType::kBF16;
        CHECK(state.contains("low") == split);
        const bool coded = types.moment == kMomentCode;
        CHECK(state.tensors().size() == (split ? 3U : 2U) + (coded ? 1U : 0U));
        if (split) check_flat<std::int32_t>(state, "low", StatePart::kLow, id, block);
        if (coded) {
          const std::int64_t blocks = (block.elements + 63) / 64;
          check_bytes(state_file, state, "m", StatePart::kM, id, block.elements, 1);
          check_bytes(state_file, state, "v", StatePart::kV, id, block.elements, 1);
          check_bytes(state_file, state, "scale", StatePart::kScale, id, blocks, 2);
        } else {
          check_flat<double>(state, "m", StatePart::kM, id, block);
          check_flat<double>(state, "v", StatePart::kV, id, block);
        }
      }
      CHECK(files.bytes() == bytes);
    }
  }
}

TEST_CASE("headers are aligned, and the library's limits on them are kept") {
  for (const LlamaConfig& model : models()) {
    const CheckpointLayout files = make_checkpoint_layout(make_layout(spec_of(model)), {});
    for (const BlockFiles& block : files.blocks) {
      for (const StateFile* file : block.files()) {
        CHECK(file->header.size() % kFileAlignment == 0);
        std::uint64_t length = 0;
        std::memcpy(&length, file->header.data(), sizeof(length));
        CHECK(length + sizeof(length) == file->header.size());
        CHECK(file->header[8] == '{');
        CHECK(file->runs.front().offset == file->header.size());
      }
      CHECK(block.state->bytes % kFileAlignment == 0);
    }
  }
}

TEST_CASE("model files are numbered as Hugging Face does, state files have the block's name") {
  const ModelLayout layout = make_layout(spec_of(test::tiny_model()));
  const CheckpointLayout files = make_checkpoint_layout(layout, {});
  CHECK(files.blocks[BlockId(0)].model.path == "model/model-00001-of-00005.safetensors");
  CHECK(files.blocks[BlockId(4)].model.path == "model/model-00005-of-00005.safetensors");
  CHECK(files.blocks[BlockId(0)].state->path == "state/embedding.safetensors");
  CHECK(files.blocks[BlockId(2)].state->path == "state/layers.1.safetensors");
  CHECK(files.blocks[BlockId(4)].state->path == "state/head.safetensors");
}

TEST_CASE("files of weights alone are those of a whole checkpoint, with nothing beside them") {
  for (const LlamaConfig& model : models()) {
    const ModelLayout layout = make_layout(spec_of(model));
    for (const CheckpointTypes& types : kAllTypes) {
      const CheckpointLayout whole = make_checkpoint_layout(layout, types);
      const CheckpointLayout weights = make_checkpoint_layout(layout, types.weights_alone());
      std::uint64_t bytes = 0;
      for (const BlockId id : layout.blocks.ids()) {
        const StateFile& file = weights.blocks[id].model;
        CHECK(file.path == whole.blocks[id].model.path);
        CHECK(file.bytes == whole.blocks[id].model.bytes);
        CHECK(written_by(file, id, layout.blocks[id], 3, weights.types) ==
              written_by(whole.blocks[id].model, id, layout.blocks[id], 2, types));
        CHECK(!weights.blocks[id].state);
        bytes += file.bytes;
      }
      CHECK(weights.bytes() == bytes);
    }
  }
}

TEST_CASE("a rank's slices of a file are as few as can be") {
  const ModelLayout layout = make_layout(spec_of(even_model()));
  const CheckpointTypes types;
  const CheckpointLayout files = make_checkpoint_layout(layout, types);
  const BlockFiles& layer = files.blocks[BlockId(1)];
  const Block& block = layout.blocks[BlockId(1)];
  CHECK(layer.model.runs.size() == 1);  // this model's segments have no gaps
  CHECK(slices_of(layer.model, block, 0, 2, types).size() == 1);
  CHECK(slices_of(*layer.state, block, 0, 1, types).size() == 1);
  CHECK(slices_of(*layer.state, block, 0, 2, types).size() == 3);
  CHECK(slices_of(*layer.state, block, 1, 2, types).size() == 3);
  CHECK_THROWS_AS(slices_of(*layer.state, block, 2, 2, types), std::invalid_argument);
}

TEST_CASE("parameters take 12 bytes in a checkpoint, 8 with moments in bf16, 6.03 in 8 bits") {
  LlamaConfig model;
  model.vocab_size = 32000;
  model.hidden_size = 4096;
  model.intermediate_size = 11008;
  model.num_hidden_layers = 32;
  model.num_attention_heads = 32;
  const ModelLayout layout = make_layout(spec_of(model));
  const auto parameters = static_cast<double>(model.parameter_count());
  for (const auto& [moment, bytes] : {std::pair(DType::kF32, 12.0), std::pair(DType::kBF16, 8.0),
                                      std::pair(kMomentCode, 6.03125)}) {
    const CheckpointLayout files = make_checkpoint_layout(layout, {DType::kBF16, moment});
    CHECK(static_cast<double>(files.bytes()) >= bytes * parameters);
    CHECK(static_cast<double>(files.bytes()) < 1.0001 * bytes * parameters);
  }
}

}  // namespace strata
