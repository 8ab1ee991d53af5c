// Writes adapters as PEFT has them. A checkpoint has a file for each layer and PEFT one for all, so
// tensors are copied to where the header of the new file says that they lie.

#include "strata/checkpoint/export_adapter.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_weights.h"
#include "checkpoint/model_writer.h"
#include "checkpoint/safetensors_header.h"
#include "strata/base/narrow.h"
#include "strata/model/peft_config.h"
#include "strata/model/resize_vocabulary.h"

namespace strata {
namespace {

/// Where the tensors of the new file lie in it.
struct AdapterFile {
  std::string header;                                         ///< with its length
  std::map<std::string, std::uint64_t, std::less<>> offsets;  ///< of tensors, from its beginning
  std::uint64_t bytes = 0;
};

/// Returns the names of a tensor in the file. An embedding that is also the head has two there, as
/// PEFT reads and writes it.
std::vector<std::string> names_in_file(const ModelLayout& layout, BlockId id,
                                       const SourceTensor& source) {
  std::vector<std::string> names{adapter_tensor(layout.blocks[id], source)};
  if (layout.gradient_sources(id) > 1) names.push_back(peft_name(kHeadName));
  return names;
}

/// Lays out the file: all tensors in the order of their names.
AdapterFile adapter_file(const ModelLayout& layout, DType weight) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const BlockId id : layout.blocks.ids()) {
    if (!layout.is_trained(id)) continue;
    for (const Segment& segment : layout.blocks[id].segments) {
      for (const SourceTensor& source : segment.sources) {
        for (const std::string& name : names_in_file(layout, id, source)) {
          shapes[name] = segment.shape_of(source);
        }
      }
    }
  }
  nlohmann::ordered_json header{{"__metadata__", {{"format", "pt"}}}};
  AdapterFile file;
  std::uint64_t end = 0;
  for (const auto& [name, shape] : shapes) {
    const std::uint64_t begin = end;
    std::uint64_t bytes = size_of(weight);
    for (const std::int64_t extent : shape) bytes *= narrow<std::uint64_t>(extent);
    end += bytes;
    header[name] = {
        {"dtype", stored_name(weight)}, {"shape", shape}, {"data_offsets", {begin, end}}};
    file.offsets[name] = begin;
  }
  file.header = safetensors_header(header);
  for (auto& [name, offset] : file.offsets) offset += file.header.size();
  file.bytes = file.header.size() + end;
  return file;
}

class AdapterExporter {
 public:
  AdapterExporter(Files& files, const AdapterExport& what, ThreadPool& pool)
      : what_(what),
        writer_(files, what.to, pool, CheckpointWeights::kWindowsOfExport, what.progress),
        weights_(files, what.checkpoint, what.layout, writer_.buffers()),
        file_(adapter_file(what.layout, what.weight)) {}

  void run() {
    weights_.require(what_.weight);
    weights_.verify_small_files();
    const std::string folder(kModelFolder);
    writer_.write_small({{folder + std::string(kPeftConfigName), what_.config}});
    writer_.expect(file_.bytes);
    const std::unique_ptr<FileWriter> out = writer_.create(folder + std::string(kPeftWeightsName));
    out->reserve(file_.bytes);
    out->write(0, std::as_bytes(std::span(file_.header)));
    writer_.add_progress(file_.header.size());
    std::vector<BlockId> trained;
    for (const BlockId id : what_.layout.blocks.ids()) {
      if (what_.layout.is_trained(id)) trained.push_back(id);
    }
    writer_.for_each(trained.size(), [&](std::size_t i) { write(trained[i], *out); });
    out->sync();
  }

 private:
  void write(BlockId id, FileWriter& out) {
    const Block& block = what_.layout.blocks[id];
    const CheckpointWeights::Fill fill = weights_.fill(id, what_.weight);
    const std::uint64_t size = size_of(what_.weight);
    const auto most = narrow<std::int64_t>(kHashWindow / size);
    const WindowBuffers::Lease buffer(writer_.buffers());
    for (const SourceRun& run : source_runs(block, 0, block.elements, most)) {
      const std::uint64_t bytes = narrow<std::uint64_t>(run.count) * size;
      const std::span<std::byte> piece = buffer.bytes(0, bytes);
      fill(run.block_begin, piece);
      const std::uint64_t begin = narrow<std::uint64_t>(run.source_begin) * size;
      for (const std::string& name : names_in_file(what_.layout, id, *run.source)) {
        out.write(file_.offsets.at(name) + begin, piece);
        writer_.add_progress(bytes);
      }
    }
  }

  const AdapterExport& what_;
  ModelWriter writer_;
  CheckpointWeights weights_;
  AdapterFile file_;
};

}  // namespace

void export_adapter(Files& files, const AdapterExport& what, ThreadPool& pool) {
  AdapterExporter(files, what, pool).run();
}

}  // namespace strata
