// Writes the files of small checkpoints, several models and dtypes, for readers that are not
// strata's: safetensors_test.py. What element j of a tensor holds follows from the tensor's name
// and j alone, and is found here by a search, element by element.
//
//   sample_checkpoint FOLDER

#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "strata/base/dtype.h"
#include "strata/checkpoint/checkpoint_layout.h"
#include "strata/checkpoint/model_folder.h"
#include "strata/model/families.h"
#include "support/tiny_model.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// Returns what safetensors_test.py computes likewise; every dtype holds it.
int sample_value(const std::string& tensor, std::int64_t element) {
  const int sum = std::accumulate(tensor.begin(), tensor.end(), 0);
  return static_cast<int>((sum + element * 31) % 113);
}

std::pair<std::string, std::int64_t> home_of(const Block& block, StatePart part,
                                             std::int64_t element) {
  if (part == StatePart::kLow) return {"low", element};
  if (part == StatePart::kM) return {"m", element};
  if (part == StatePart::kV) return {"v", element};
  for (const Segment& segment : block.segments) {
    std::int64_t begin = segment.offset;
    for (const SourceTensor& source : segment.sources) {
      const std::int64_t end = begin + source.rows * segment.cols;
      if (element >= begin && element < end) return {source.name, element - begin};
      begin = end;
    }
  }
  throw std::logic_error("a file holds a gap of " + block.name);
}

template <class T>
void put(std::string& content, std::uint64_t offset, T value) {
  content.replace(offset, sizeof(T), reinterpret_cast<const char*>(&value), sizeof(T));
}

std::string content_of(const StateFile& file, const Block& block, const CheckpointTypes& types) {
  std::string content = file.header;
  content.resize(file.bytes, '\0');
  for (const FileRun& run : file.runs) {
    const DType dtype = run.part == StatePart::kWeight ? types.weight
                        : run.part == StatePart::kLow  ? DType::kI16
                                                       : types.moment.value();
    for (std::int64_t i = 0; i < run.count; ++i) {
      const auto [tensor, element] = home_of(block, run.part, run.begin + i);
      const int value = sample_value(tensor, element);
      const std::uint64_t at = run.offset + static_cast<std::uint64_t>(i) * size_of(dtype);
      switch (dtype) {
        case DType::kF64: put(content, at, static_cast<double>(value)); break;
        case DType::kF32: put(content, at, static_cast<float>(value)); break;
        case DType::kBF16: put(content, at, Bf16(static_cast<float>(value))); break;
        default: put(content, at, static_cast<std::int16_t>(value)); break;
      }
    }
  }
  return content;
}

void write_or_throw(const fs::path& file, const std::string& content) {
  fs::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out << content;
  if (!out.flush()) throw std::runtime_error(file.string() + " cannot be written");
}

void write_checkpoint(const fs::path& folder, const LlamaConfig& model,
                      const CheckpointTypes& types) {
  const ModelLayout layout = make_layout(spec_of(model));
  const CheckpointLayout files = make_checkpoint_layout(layout, types);
  for (const BlockId id : layout.blocks.ids()) {
    const Block& block = layout.blocks[id];
    for (const StateFile* file : files.blocks[id].files()) {
      write_or_throw(folder / file->path, content_of(*file, block, types));
    }
  }
  for (const SmallFile& file : model_folder_files(files, layout, model)) {
    write_or_throw(folder / file.path, file.contents);
  }
}

void write_all(const fs::path& folder) {
  const LlamaConfig tiny = test::tiny_model();
  LlamaConfig tied = tiny;
  tied.tie_word_embeddings = true;
  tied.rope_theta = 500000.0;
  tied.rope_scaling =
      RopeScaling{.rope_type = RopeType::kLlama3, .original_max_position_embeddings = 8};
  write_checkpoint(folder / "bf16", tiny, {DType::kBF16, DType::kF32});
  write_checkpoint(folder / "bf16-moments", tied, {DType::kBF16, DType::kBF16});
  write_checkpoint(folder / "f32", tied, {DType::kF32, DType::kF32});
  write_checkpoint(folder / "f64", tiny, {DType::kF64, DType::kF64});
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: sample_checkpoint FOLDER\n", stderr);
    return 2;
  }
  try {
    strata::write_all(argv[1]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "sample_checkpoint: %s\n", e.what());
    return 1;
  }
  return 0;
}
