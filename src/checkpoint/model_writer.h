// Writes the folder of a model: what exports and imports share. Every file is one job of one
// thread, which fills and writes it window by window from its beginning to its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "strata/base/narrow.h"
#include "strata/base/thread_pool.h"
#include "strata/checkpoint/checkpoint_layout.h"
#include "strata/checkpoint/files.h"
#include "strata/checkpoint/model_folder.h"
#include "strata/checkpoint/window_buffers.h"

namespace strata {

/// Writes files to a folder that is there and has none of these names, and synchronises them. All
/// paths are those in a checkpoint, such as "model/config.json". Throws IoError that names a file
/// which cannot be written.
class ModelWriter {
 public:
  /// Fills `out` with elements of a block from `begin` on, in the dtype of the file. It belongs to
  /// one thread, and is called with ascending elements.
  using Fill = std::function<void(std::int64_t begin, std::span<std::byte> out)>;

  /// Takes memory for so many windows of each thread.
  ModelWriter(Files& files, std::filesystem::path to, ThreadPool& pool,
              std::size_t windows_per_thread, OnModelProgress progress);

  /// Returns the buffers of all threads; write_weights() uses one of a thread's.
  [[nodiscard]] WindowBuffers& buffers() { return buffers_; }
  /// Makes the folder in the model's that a file of this path lies in, if it is not there.
  void make_folder_of(const std::string& path);
  /// Makes a new file, whose folder is there.
  [[nodiscard]] std::unique_ptr<FileWriter> create(const std::string& path);

  void write_small(const std::vector<SmallFile>& small);
  /// Writes the weights of all blocks, on all threads. `source(block)` returns a Fill, when the
  /// file's turn has come.
  void write_weights(const CheckpointLayout& target, const std::function<Fill(BlockId)>& source);

  /// Calls body(i) for i below `count`, on all threads.
  template <class Body>
  void for_each(std::size_t count, const Body& body) {
    pool_.parallel_for(narrow<std::int64_t>(count), 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) body(static_cast<std::size_t>(i));
    });
  }

  /// Says, before they are written, that there are so many more bytes.
  void expect(std::uint64_t bytes) { progress_.bytes += bytes; }
  void add_progress(std::uint64_t bytes);

 private:
  void write_weights(const StateFile& file, std::size_t element_bytes, const Fill& fill);

  Files& files_;
  std::filesystem::path to_;
  ThreadPool& pool_;
  std::size_t memory_bytes_;
  std::unique_ptr<std::byte[]> memory_;
  WindowBuffers buffers_;
  OnModelProgress on_progress_;
  std::mutex progress_mutex_;
  ModelProgress progress_;  ///< guarded by progress_mutex_ while threads are at work
};

}  // namespace strata
