// Every file that is made is one job of one thread, which reads its sources from their beginning to
// their end: each window of the checkpoint is read and hashed once.

#include "strata/checkpoint/export_model.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/verified_file.h"
#include "strata/base/convert.h"
#include "strata/base/error.h"
#include "strata/base/narrow.h"
#include "strata/checkpoint/checkpoint_layout.h"
#include "strata/checkpoint/manifest.h"
#include "strata/checkpoint/model_folder.h"
#include "strata/checkpoint/window_buffers.h"
#include "strata/model/layout.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// A thread holds a window of weights, one of low halves, and one that is written.
constexpr std::size_t kWindowsOfThread = 3;

bool is_weights(const std::string& path) { return path.ends_with(".safetensors"); }

/// Returns the name that a file of model/ has in the folder that is made.
std::string exported_name(const std::string& path) { return path.substr(kModelFolder.size()); }

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
      : files_(files),
        what_(what),
        pool_(pool),
        threads_(static_cast<std::size_t>(pool.threads())),
        memory_(std::make_unique_for_overwrite<std::byte[]>(memory_bytes())),
        buffers_({memory_.get(), memory_bytes()}, kHashWindow) {
    for (const ManifestFile& file : manifest().files) files_of_[file.path] = &file;
  }

  void run() {
    if (what_.weight == manifest().types.weight) return copy_all();
    convert_all();
  }

 private:
  [[nodiscard]] const Manifest& manifest() const { return what_.checkpoint.manifest; }
  [[nodiscard]] const CheckpointTypes& types() const { return manifest().types; }
  [[nodiscard]] std::size_t memory_bytes() const {
    return threads_ * kWindowsOfThread * kHashWindow + kFileAlignment;
  }
  [[nodiscard]] VerifiedFile open(const ManifestFile& file) {
    return {files_, what_.checkpoint.folder, file, buffers_};
  }

  /// Calls body(i) for i below `count`, on all threads.
  template <class Body>
  void for_each(std::size_t count, const Body& body) {
    pool_.parallel_for(narrow<std::int64_t>(count), 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) body(static_cast<std::size_t>(i));
    });
  }

  void add_progress(std::uint64_t bytes) {
    if (!what_.progress) return;
    const std::lock_guard lock(progress_mutex_);
    progress_.bytes_done += bytes;
    what_.progress(progress_);
  }

  // ---- the checkpoint has these weights already ----

  void copy_all() {
    std::vector<const ManifestFile*> all;
    for (const ManifestFile& file : manifest().files) {
      if (!file.path.starts_with(kModelFolder)) continue;
      all.push_back(&file);
      progress_.bytes += file.bytes;
    }
    for_each(all.size(), [&](std::size_t i) { copy(*all[i]); });
  }

  void copy(const ManifestFile& file) {
    VerifiedFile in = open(file);
    const std::unique_ptr<FileWriter> out = files_.create(what_.to / exported_name(file.path));
    out->reserve(file.bytes);
    for (std::uint64_t at = 0; at < file.bytes;) {
      const std::span<const std::byte> bytes = in.from(at);
      out->write(at, bytes);
      at += bytes.size();
      add_progress(bytes.size());
    }
    out->sync();
  }

  // ---- the weights are joined or rounded ----

  /// The sources of a file of weights, and where its elements lie in them.
  struct Sources {
    VerifiedFile weights;
    std::optional<VerifiedFile> low;
    const StateFile& weights_layout;
    std::uint64_t low_offset = 0;  ///< of the block's first element
  };

  void convert_all() {
    const Manifest& from = manifest();
    // Whoever claims more layers than there are files gets no layout of them made.
    if (std::cmp_greater(what_.model.num_hidden_layers, from.files.size())) {
      throw IoError(what_.checkpoint.folder.string() + ": has fewer files than its model layers");
    }
    const ModelLayout layout = make_layout(what_.model);
    const CheckpointLayout source = make_checkpoint_layout(layout, types());
    const CheckpointLayout target =
        make_checkpoint_layout(layout, {.weight = what_.weight, .moment = types().moment});
    for (const BlockId b : layout.blocks.ids()) {  // before anything is written
      static_cast<void>(entry(source.blocks[b].model));
      static_cast<void>(entry(source.blocks[b].state));
      progress_.bytes += target.blocks[b].model.bytes;
    }
    verify_small_files();
    const ImportedFolder imported{&files_, what_.checkpoint.folder / kModelFolder};
    for (const SmallFile& file : model_folder_files(target, layout, what_.model, imported)) {
      write_whole(files_, what_.to / exported_name(file.path),
                  std::as_bytes(std::span(file.contents)));
    }
    for_each(layout.blocks.size(), [&](std::size_t i) {
      const BlockId b(narrow<int>(i));
      convert_file(source.blocks[b], target.blocks[b].model);
    });
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

  void convert_file(const BlockFiles& source, const StateFile& target) {
    Sources sources{open(entry(source.model)), {}, source.model, 0};
    if (types().bytes_of(StatePart::kLow) > 0) {
      sources.low.emplace(files_, what_.checkpoint.folder, entry(source.state), buffers_);
      sources.low_offset = source.state.runs.front().offset;  // "low" is the first tensor
    }
    const std::unique_ptr<FileWriter> out = files_.create(what_.to / exported_name(target.path));
    out->reserve(target.bytes);
    out->write(0, std::as_bytes(std::span(target.header)));
    const WindowBuffers::Lease buffer(buffers_);
    for (const Window& window : cut_windows(target.header.size(), target.bytes)) {
      const std::span<std::byte> bytes = buffer.bytes(window.begin, window.end);
      for (std::size_t i = 0; i < target.runs.size(); ++i) {
        convert_run(sources, i, target.runs[i], window, bytes);
      }
      out->write(window.begin, bytes);
      add_progress(bytes.size());
    }
    out->sync();
  }

  /// Fills what a window of the new file has of its run number `index`.
  void convert_run(Sources& sources, std::size_t index, const FileRun& run, const Window& window,
                   std::span<std::byte> bytes) {
    const std::uint64_t size = size_of(what_.weight);
    const std::uint64_t begin = std::max(run.offset, window.begin);
    const std::uint64_t end =
        std::min(run.offset + narrow<std::uint64_t>(run.count) * size, window.end);
    const std::uint64_t source_size = types().bytes_of(StatePart::kWeight);
    const FileRun& source = sources.weights_layout.runs.at(index);
    for (std::uint64_t at = begin; at < end;) {
      const std::uint64_t element = (at - run.offset) / size;  // of the run
      const auto weights = sources.weights.from(source.offset + element * source_size);
      std::size_t count = std::min<std::size_t>(weights.size() / source_size, (end - at) / size);
      std::span<const std::byte> low;
      if (sources.low) {
        const std::uint64_t of_block = narrow<std::uint64_t>(run.begin) + element;
        low = sources.low->from(sources.low_offset + of_block * sizeof(std::int16_t));
        count = std::min(count, low.size() / sizeof(std::int16_t));
      }
      if (count == 0) {
        throw IoError(sources.weights.path().string() +
                      ": the manifest cuts this file within an element");
      }
      convert(types().weight, weights, low, what_.weight, count,
              bytes.subspan(static_cast<std::size_t>(at - window.begin)));
      at += count * size;
    }
  }

  Files& files_;
  const ModelExport& what_;
  ThreadPool& pool_;
  std::size_t threads_;
  std::unique_ptr<std::byte[]> memory_;
  WindowBuffers buffers_;
  std::map<std::string, const ManifestFile*, std::less<>> files_of_;
  std::mutex progress_mutex_;
  ExportProgress progress_;  ///< guarded by progress_mutex_ while threads are at work
};

}  // namespace

void export_model(Files& files, const ModelExport& what, ThreadPool& pool) {
  Exporter(files, what, pool).run();
}

}  // namespace strata
