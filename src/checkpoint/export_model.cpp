// Writes the weights of a checkpoint as a Hugging Face folder. The thread that makes a file reads
// its sources from their beginning to their end: each window of the checkpoint is read and hashed
// once.

#include "strata/checkpoint/export_model.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/model_writer.h"
#include "checkpoint/verified_file.h"
#include "strata/base/convert.h"
#include "strata/base/error.h"
#include "strata/base/narrow.h"
#include "strata/checkpoint/checkpoint_layout.h"
#include "strata/checkpoint/manifest.h"
#include "strata/checkpoint/model_folder.h"
#include "strata/model/families.h"
#include "strata/model/layout.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// A thread holds a window of weights, one of low halves, and one that is written.
constexpr std::size_t kWindowsOfThread = 3;

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

/// Writes `count` elements of `weights`, joined with `low` if there is any, as `to`.
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
  store_all([&](std::size_t i) {
    return join_f32({element<std::uint16_t>(weights, i), element<std::int16_t>(low, i)});
  });
}

class Exporter {
 public:
  Exporter(Files& files, const ModelExport& what, ThreadPool& pool)
      : files_(files), what_(what), writer_(files, what.to, pool, kWindowsOfThread, what.progress) {
    for (const ManifestFile& file : manifest().files) files_of_[file.path] = &file;
  }

  void run() {
    if (what_.weight == manifest().types.weight) return copy_all();
    convert_all();
  }

 private:
  [[nodiscard]] const Manifest& manifest() const { return what_.checkpoint.manifest; }
  [[nodiscard]] const CheckpointTypes& types() const { return manifest().types; }
  [[nodiscard]] VerifiedFile open(const ManifestFile& file) {
    return {files_, what_.checkpoint.folder, file, writer_.buffers()};
  }

  // ---- the checkpoint has these weights already ----

  void copy_all() {
    std::vector<const ManifestFile*> all;
    for (const ManifestFile& file : manifest().files) {
      if (!file.path.starts_with(kModelFolder)) continue;
      all.push_back(&file);
      writer_.make_folder_of(file.path);
      writer_.expect(file.bytes);
    }
    writer_.for_each(all.size(), [&](std::size_t i) { copy(*all[i]); });
  }

  void copy(const ManifestFile& file) {
    VerifiedFile in = open(file);
    const std::unique_ptr<FileWriter> out = writer_.create(file.path);
    out->reserve(file.bytes);
    for (std::uint64_t at = 0; at < file.bytes;) {
      const std::span<const std::byte> bytes = in.from(at);
      out->write(at, bytes);
      at += bytes.size();
      writer_.add_progress(bytes.size());
    }
    out->sync();
  }

  // ---- the weights are joined or rounded ----

  /// The sources of a file of weights, and where its elements lie in them.
  struct Sources {
    VerifiedFile weights;
    std::optional<VerifiedFile> low;
    const BlockFiles& layout;
  };

  void convert_all() {
    const Manifest& from = manifest();
    if (types().are_weights_alone() && types().weight == DType::kBF16) {
      throw IoError(what_.checkpoint.folder.string() +
                    ": holds weights alone, without the low halves of the masters; export it as "
                    "bf16, or a whole checkpoint as f32");
    }
    // Whoever claims more layers than there are files gets no layout of them made.
    if (std::cmp_greater(what_.model.num_hidden_layers, from.files.size())) {
      throw IoError(what_.checkpoint.folder.string() + ": has fewer files than its model layers");
    }
    const ModelLayout layout = make_layout(spec_of(what_.model));
    const CheckpointLayout source = make_checkpoint_layout(layout, types());
    const CheckpointLayout target =
        make_checkpoint_layout(layout, {.weight = what_.weight, .moment = {}});
    for (const BlockFiles& block : source.blocks) {  // before anything is written
      for (const StateFile* file : block.files()) static_cast<void>(entry(*file));
    }
    verify_small_files();
    writer_.write_small(model_folder_files(target, layout, what_.model,
                                           files_of_checkpoint(files_, what_.checkpoint)));
    writer_.write_weights(target, [&](BlockId b) { return joined(source.blocks[b]); });
  }

  /// Returns what the manifest says of a file of the layout.
  [[nodiscard]] const ManifestFile& entry(const StateFile& file) const {
    const auto found = files_of_.find(file.path);
    if (found != files_of_.end() && found->second->bytes == file.bytes) return *found->second;
    throw IoError((what_.checkpoint.folder / file.path).string() +
                  ": is not in the manifest with the size that a file of this model has; the "
                  "checkpoint is of another model");
  }

  void verify_small_files() {
    for (const ManifestFile& file : manifest().files) {
      if (!file.path.starts_with(kModelFolder) || is_weights(file.path)) continue;
      VerifiedFile in = open(file);
      for (std::uint64_t at = 0; at < file.bytes;) at += in.from(at).size();
    }
  }

  /// Returns what fills the new file of a block.
  [[nodiscard]] ModelWriter::Fill joined(const BlockFiles& source) {
    const std::shared_ptr<Sources> sources(new Sources{open(entry(source.model)), {}, source});
    if (types().bytes_of(StatePart::kLow) > 0) {
      sources->low.emplace(files_, what_.checkpoint.folder, entry(*source.state),
                           writer_.buffers());
    }
    return [this, sources](std::int64_t begin, std::span<std::byte> out) {
      convert_elements(*sources, begin, out);
    };
  }

  /// Fills `out` with elements of the block from `begin` on.
  void convert_elements(Sources& sources, std::int64_t begin, std::span<std::byte> out) {
    const std::size_t size = size_of(what_.weight);
    while (!out.empty()) {
      const auto weights =
          rest_of(sources.weights, sources.layout.model, StatePart::kWeight, begin);
      std::size_t count =
          std::min(weights.size() / types().bytes_of(StatePart::kWeight), out.size() / size);
      std::span<const std::byte> low;
      if (sources.low) {
        low = rest_of(*sources.low, *sources.layout.state, StatePart::kLow, begin);
        count = std::min(count, low.size() / types().bytes_of(StatePart::kLow));
      }
      if (count == 0) {
        throw IoError(sources.weights.path().string() +
                      ": the manifest cuts this file within an element");
      }
      convert(types().weight, weights, low, what_.weight, count, out);
      begin += narrow<std::int64_t>(count);
      out = out.subspan(count * size);
    }
  }

  /// Returns what the window of a file has of a part of the block from this element on.
  std::span<const std::byte> rest_of(VerifiedFile& file, const StateFile& layout, StatePart part,
                                     std::int64_t element) const {
    for (const FileRun& run : layout.runs) {
      if (run.part != part || element < run.begin || element >= run.begin + run.count) continue;
      return file.from(run.offset +
                       narrow<std::uint64_t>(element - run.begin) * types().bytes_of(part));
    }
    throw std::logic_error("no file has element " + std::to_string(element) + " of its block");
  }

  Files& files_;
  const ModelExport& what_;
  ModelWriter writer_;
  std::map<std::string, const ManifestFile*, std::less<>> files_of_;
};

}  // namespace

void export_model(Files& files, const ModelExport& what, ThreadPool& pool) {
  Exporter(files, what, pool).run();
}

}  // namespace strata
