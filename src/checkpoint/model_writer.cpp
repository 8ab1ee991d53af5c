// Writes the files of a model's folder, window by window. A window of a file has parts of one run
// of elements or of several.

#include "checkpoint/model_writer.h"

#include <algorithm>
#include <utility>

#include "strata/checkpoint/manifest.h"

namespace strata {

ModelWriter::ModelWriter(Files& files, std::filesystem::path to, ThreadPool& pool,
                         std::size_t windows_per_thread, OnModelProgress progress)
    : files_(files),
      to_(std::move(to)),
      pool_(pool),
      memory_bytes_(static_cast<std::size_t>(pool.threads()) * windows_per_thread * kHashWindow +
                    kFileAlignment),
      memory_(std::make_unique_for_overwrite<std::byte[]>(memory_bytes_)),
      buffers_({memory_.get(), memory_bytes_}, kHashWindow),
      on_progress_(std::move(progress)) {}

std::unique_ptr<FileWriter> ModelWriter::create(const std::string& path) {
  return files_.create(to_ / path.substr(kModelFolder.size()));
}

void ModelWriter::make_folder_of(const std::string& path) {
  const std::filesystem::path folder = (to_ / path.substr(kModelFolder.size())).parent_path();
  if (files_.kind(folder) == Files::Kind::kNothing) files_.make_folder(folder);
}

void ModelWriter::write_small(const std::vector<SmallFile>& small) {
  for (const SmallFile& file : small) {
    make_folder_of(file.path);
    write_whole(files_, to_ / file.path.substr(kModelFolder.size()),
                std::as_bytes(std::span(file.contents)));
  }
}

void ModelWriter::write_weights(const CheckpointLayout& target,
                                const std::function<Fill(BlockId)>& source) {
  for (const BlockFiles& block : target.blocks) expect(block.model.bytes);
  for_each(target.blocks.size(), [&](std::size_t i) {
    const BlockId b(narrow<int>(i));
    write_weights(target.blocks[b].model, size_of(target.types.weight), source(b));
  });
}

void ModelWriter::write_weights(const StateFile& file, std::size_t element_bytes,
                                const Fill& fill) {
  const std::unique_ptr<FileWriter> out = create(file.path);
  out->reserve(file.bytes);
  out->write(0, std::as_bytes(std::span(file.header)));
  const WindowBuffers::Lease buffer(buffers_);
  for (const Window& window : cut_windows(file.header.size(), file.bytes)) {
    const std::span<std::byte> bytes = buffer.bytes(window.begin, window.end);
    for (const FileRun& run : file.runs) {
      const std::uint64_t run_end = run.offset + narrow<std::uint64_t>(run.count) * element_bytes;
      const std::uint64_t begin = std::max(run.offset, window.begin);
      const std::uint64_t end = std::min(run_end, window.end);
      if (begin >= end) continue;
      fill(run.begin + narrow<std::int64_t>((begin - run.offset) / element_bytes),
           bytes.subspan(begin - window.begin, end - begin));
    }
    out->write(window.begin, bytes);
    add_progress(bytes.size());
  }
  out->sync();
}

void ModelWriter::add_progress(std::uint64_t bytes) {
  if (!on_progress_) return;
  const std::lock_guard lock(progress_mutex_);
  progress_.bytes_done += bytes;
  on_progress_(progress_);
}

}  // namespace strata
