// Saves of small states into any Files, by ranks that are threads: what the tests of crashes,
// failures and damage do again and again. The operations of the ranks come one by one, in an order
// that follows from a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "strata/checkpoint/checkpoint_save.h"
#include "strata/checkpoint/files.h"
#include "strata/checkpoint/manifest.h"

namespace strata::test {

/// A model of one layer and about 200 parameters, whose files have few pages.
[[nodiscard]] LlamaConfig smallest_model();

/// Which files a sync is of.
enum class SyncOf : std::uint8_t {
  kCreated,  ///< a file, by the writer that made it
  kShare,    ///< a file, by a writer that has filled a share of it
  kFolder,
};
/// Returns whether a sync is left out.
using LeaveOut = std::function<bool(SyncOf of, const std::filesystem::path& path)>;

struct SmallSavesOptions {
  LlamaConfig model = smallest_model();
  CheckpointTypes types;
  int ranks = 1;
  Retention retention;
  std::uint64_t seed = 1;  ///< of the order in which ranks take turns
  LeaveOut leave_out = nullptr;
};

class SmallSaves {
 public:
  static constexpr const char* kFolder = "/run/checkpoints";
  enum class Until : std::uint8_t { kCommitted, kWritten };

  explicit SmallSaves(SmallSavesOptions options);

  /// Saves the state behind a step; returns the ranks' reports. The same step has the same state.
  /// A save that is only written ends as if its process did.
  std::vector<SaveReport> save(Files& files, std::int64_t step, Until until = Until::kCommitted);

  [[nodiscard]] const ModelLayout& model() const { return model_; }
  [[nodiscard]] const CheckpointLayout& layout() const { return layout_; }
  /// Returns the bytes of a part of a rank's shard of a block, as they were saved.
  [[nodiscard]] std::vector<std::byte> saved_bytes(std::int64_t step, int rank, BlockId block,
                                                   StatePart part) const;

 private:
  void save_on(Ranks& ranks, Files& files, std::int64_t step, Until until,
               std::vector<SaveReport>& reports);

  SmallSavesOptions options_;
  ModelLayout model_;
  CheckpointLayout layout_;
  std::vector<SmallFile> small_files_;
  std::int64_t saves_ = 0;
  class Turns;
  std::shared_ptr<Turns> turns_;  ///< of the save under way
};

/// Reads every file of a checkpoint; throws as read_manifest and verify_checkpoint do.
Manifest read_all(const Files& files, const std::filesystem::path& checkpoint);

}  // namespace strata::test
