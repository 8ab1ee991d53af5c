// One checkpoint, whole or of the weights alone, while this rank writes its share of it: made,
// filled block by block, and committed by all ranks together, or given up. Its members run on the
// save lane, in the same order on every rank. Nothing that goes wrong with files is thrown: the
// save has failed from then on, does nothing more, and says so in its report; training does not
// notice.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "strata/base/thread_pool.h"
#include "strata/base/work_progress.h"
#include "strata/checkpoint/checkpoint_folder.h"
#include "strata/checkpoint/checkpoint_layout.h"
#include "strata/checkpoint/files.h"
#include "strata/checkpoint/manifest.h"
#include "strata/checkpoint/model_folder.h"
#include "strata/checkpoint/window_buffers.h"
#include "strata/comm/ranks.h"
#include "strata/store/training_state.h"

namespace strata {

/// What the state after a step is saved as.
struct SaveKinds {
  bool whole = false;    ///< a checkpoint that a run can go on from
  bool weights = false;  ///< weights alone
  [[nodiscard]] bool any() const { return whole || weights; }
  bool operator==(const SaveKinds&) const = default;
};

/// When a save that is written becomes a checkpoint.
enum class CommitWhen : std::uint8_t {
  kWritten,    ///< at once
  kValidated,  ///< not before it is told what the validation of its step has found
};

/// What all saves of a kind share; it outlives them.
struct SaveParts {
  Files& files;
  Ranks& world;     ///< all ranks, which commit together
  Ranks& shard;     ///< those that hold the state together with this one
  int replica = 0;  ///< which copy of the state that is; the first one is written
  const ModelLayout& model;
  const CheckpointLayout& layout;
  const std::vector<SmallFile>& small_files;  ///< of the model's folder
  ThreadPool& writers;                        ///< of the save lane alone
  WindowBuffers& buffers;                     ///< at least one
  std::filesystem::path folder;  ///< that holds the run's checkpoints; made if it is not there
  Retention retention;           ///< of the checkpoints in it
  CommitWhen commit = CommitWhen::kWritten;
  WorkProgress* work = nullptr;  ///< counts the bytes that this rank has written; may be null
};

/// What becomes known of a step when it ends.
struct StepFacts {
  StepHistory history;
  std::optional<double> loss;  ///< absent: the step has no target
  double grad_norm = 0;
};

/// What came of a save.
struct SaveReport {
  std::int64_t step = 0;         ///< steps done
  bool weights_alone = false;    ///< else it is a checkpoint to go on from
  std::filesystem::path folder;  ///< of the checkpoint
  std::string failure;           ///< why there is none; empty if it is committed
  std::string warning;           ///< what else went wrong; training need not mind
  std::uint64_t bytes = 0;       ///< that this rank wrote
  double seconds = 0;            ///< from the first file operation to the end of the last, but for
                                 ///< those in which it was written and a validation was waited for
};

class CheckpointSave {
 public:
  /// `facts` has everything of the manifest but its files and what StepFacts has. `name` is that of
  /// the temporary folder, the same on all ranks.
  CheckpointSave(SaveParts parts, Manifest facts, const std::string& name);

  /// Makes the folder with its files, without their contents.
  void prepare();
  /// Writes this rank's share of a block, and synchronises it. `state` is where its tensors lie in
  /// host memory; `state.begin` says which elements of the block they are.
  void write(BlockId block, const BlockState& state);
  /// Says what became of the step; by any thread, before commit().
  void tell(const StepFacts& facts);
  /// Says what validations have found up to the step; by the thread that submits, before commit()
  /// is submitted. A save waits for it that is committed when validated.
  void tell(const Validations& validations);
  [[nodiscard]] bool awaits_validation() const {
    return p_.commit == CommitWhen::kValidated && validated_s_ == 0;
  }
  /// Makes it a checkpoint if every rank has written its share: from one moment to the next it is
  /// there as a whole. It takes the place of one of the same step, if one has come
  /// since the start, which sets such folders aside.
  void commit();

  [[nodiscard]] std::int64_t step() const { return manifest_.step; }
  /// Returns whether it needs no more of a block than its weights.
  [[nodiscard]] bool weights_alone() const { return report_.weights_alone; }
  /// Returns what came of it, after commit().
  [[nodiscard]] const SaveReport& report() const { return report_; }

 private:
  template <class Body>
  void attempt(const Body& body);
  void fail(std::string why);
  [[nodiscard]] bool vote();
  /// Returns the folders in the checkpoint's own.
  [[nodiscard]] std::vector<std::filesystem::path> subfolders() const;
  void make_files();
  void write_file(const StateFile& file, BlockId block, const BlockState& state,
                  std::vector<std::uint64_t>& hashes);
  [[nodiscard]] std::vector<ManifestFile> gather_hashes();
  void publish();
  void clean_up();

  SaveParts p_;
  Manifest manifest_;
  std::filesystem::path temporary_;
  std::filesystem::path replaced_;   ///< what had the checkpoint's name before
  std::vector<ManifestFile> small_;  ///< of rank 0
  /// The hashes of this rank's slices by block, first of the model's file, then of the state's.
  PerBlock<std::vector<std::uint64_t>> hashes_;
  std::mutex facts_mutex_;
  std::optional<StepFacts> facts_;  ///< guarded by facts_mutex_
  double begun_s_ = 0;
  double written_s_ = 0;    ///< when this rank has written what it has so far
  double validated_s_ = 0;  ///< when it was told of validations; 0: it was not
  SaveReport report_;
};

/// The saves of the state after one step, of a kind each.
using Saves = std::vector<std::shared_ptr<CheckpointSave>>;

/// Returns the name of the checkpoint of a step: "step-00001000".
[[nodiscard]] std::string checkpoint_name(std::int64_t step);
/// Temporary folders of checkpoints begin so, and so do those that are being deleted.
inline constexpr std::string_view kTemporaryPrefix = ".unfinished-";

}  // namespace strata
