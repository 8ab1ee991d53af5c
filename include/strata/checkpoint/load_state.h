// Reads the state of a checkpoint into a run's homes, whatever the number of ranks, the placement
// and the dtypes of both. Every byte that is used was verified, and nothing is held but a few
// windows of files: what a rank needs is what training needs.
#pragma once

#include <filesystem>
#include <functional>

#include "strata/base/error.h"
#include "strata/base/thread_pool.h"
#include "strata/base/work_progress.h"
#include "strata/checkpoint/checkpoint_folder.h"
#include "strata/checkpoint/files.h"
#include "strata/checkpoint/manifest.h"
#include "strata/checkpoint/window_buffers.h"
#include "strata/store/training_state.h"

namespace strata {

/// A checkpoint that looked whole has bytes that are not those that were written, as one rank at
/// least has read. The message names the file.
class DamagedCheckpoint : public IoError {
 public:
  using IoError::IoError;
};

/// Sets this rank's shards to what the checkpoint holds; gradients become 0. Masters become f32 or
/// split into two halves, and moments f32, bf16 or codes (rounded to nearest), as the state has
/// them. Blocks the calling thread, the submitting one. Throws IoError that names the file and
/// bytes that are missing, unreadable or not what the manifest says, also in files that hold no
/// state. `between`, if it is given, is called between the blocks, as often on every rank; what it
/// throws ends the load. `work`, if it is given, is told that it begins, and counts the bytes of
/// state.
void load_state(const Files& files, const std::filesystem::path& checkpoint,
                const Manifest& manifest, TrainingState& state, ThreadPool& pool,
                WindowBuffers& buffers, const std::function<void()>& between = nullptr,
                WorkProgress* work = nullptr);

/// Reads every file of a checkpoint and throws IoError, as load_state does, for the first byte that
/// is not what the manifest says. `work`, if it is given, counts the bytes.
void verify_checkpoint(const Files& files, const std::filesystem::path& checkpoint,
                       const Manifest& manifest, ThreadPool& pool, WindowBuffers& buffers,
                       WorkProgress* work = nullptr);
/// Does the same in memory of its own, a window for each thread of the pool.
void verify_checkpoint(const Files& files, const FoundCheckpoint& checkpoint, ThreadPool& pool,
                       WorkProgress* work = nullptr);

}  // namespace strata
