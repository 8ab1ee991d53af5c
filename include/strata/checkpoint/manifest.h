// The manifest makes a folder a checkpoint: it is written last, names every other file, and says
// what the bytes of each must hash to, its own included. What is not in it does not belong to the
// checkpoint; a folder without one is no checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/checkpoint/checkpoint_layout.h"
#include "strata/checkpoint/files.h"
#include "strata/checkpoint/validations.h"
#include "strata/data/source_content.h"
#include "strata/optimizer/bad_steps.h"

namespace strata {

/// Hashes are taken of windows of so many bytes, from the beginning of a file on.
inline constexpr std::uint64_t kHashWindow = std::uint64_t{16} << 20;

/// Returns the 64-bit XXH3 of bytes.
[[nodiscard]] std::uint64_t xxh3(std::span<const std::byte> bytes);

/// Returns how many windows bytes [begin, end) of a file reach into.
[[nodiscard]] constexpr std::uint64_t windows_of(std::uint64_t begin, std::uint64_t end) {
  return begin < end ? (end - 1) / kHashWindow - begin / kHashWindow + 1 : 0;
}

/// What a rank wrote of a file: bytes [begin, end), and the XXH3 of what of every window of the
/// file lies in them, in order.
struct SliceHashes {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::int64_t update = 0;  ///< number of the update after which these bytes are the state
  std::vector<std::uint64_t> windows;
  bool operator==(const SliceHashes&) const = default;
};

/// One file of the checkpoint but the manifest.
struct ManifestFile {
  std::string path;  ///< in the checkpoint's folder, with "/"
  std::uint64_t bytes = 0;
  std::vector<SliceHashes> slices;  ///< by begin; they cover the file
  bool operator==(const ManifestFile&) const = default;
};

/// Samples [begin, end) of the training data.
struct SampleWindow {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const SampleWindow&) const = default;
};

/// Returns how many samples lie in windows.
[[nodiscard]] std::int64_t samples_in(std::span<const SampleWindow> windows);

/// The data that a run has read, by what is in them.
struct DataContents {
  std::vector<SourceContent> training;    ///< the sources of data.train, in their order
  std::vector<SourceContent> validation;  ///< that of data.validation, if there is one
  bool operator==(const DataContents&) const = default;
};

/// What is known of the data of a run.
struct RunData {
  std::optional<DataContents> contents{};  ///< absent: nobody has looked
  std::int64_t step_tokens = 0;            ///< of all ranks; 0: not known
  std::int64_t validation_rows = 0;  ///< that a validation reads at most; 0: all, or not known
  /// Losses of validations after fewer steps are of other data or rows than those since then.
  std::int64_t validation_since = 0;
  bool operator==(const RunData&) const = default;
};

/// The weights that adapters are trained for, or that a stored reference is of: no checkpoint has
/// them.
struct BaseWeights {
  std::string folder;      ///< model.path of the run; empty: they were drawn by its seed
  std::uint64_t hash = 0;  ///< of the folder's weights, see hash_of_base(); 0 if they were drawn
  bool operator==(const BaseWeights&) const = default;
};

/// What became of the run up to the checkpoint, and what it holds.
struct Manifest {
  std::int64_t step = 0;              ///< steps that were done
  StepHistory history;                ///< of them
  std::int64_t samples = 0;           ///< up to which the training data are consumed
  std::vector<SampleWindow> skipped;  ///< of them, those that no step has trained on, ascending
  RunData data;
  Validations validations;     ///< up to the step, of a run that goes by them
  std::optional<double> loss;  ///< of the last step; absent: it had no target
  double grad_norm = 0;        ///< of the last step
  bool finite = true;   ///< loss and norm are, or there is no loss, which is null in the text; else
                        ///< one that is not is null, and not a number once it was read
  std::string program;  ///< version and commit that wrote it
  std::string model = "{}";         ///< the model's config as a JSON object, in strata's words
  std::string config = "{}";        ///< the resolved run config as a JSON object
  std::optional<BaseWeights> base;  ///< of adapters, or of a run with a stored reference
  CheckpointTypes types;
  std::vector<ManifestFile> files;  ///< by path

  /// Returns whether the last step was not bad, so that a run may go back to here.
  [[nodiscard]] bool good() const { return finite && history.bad_in_a_row == 0; }
  /// Returns the manifest as a JSON text whose last key is the hash of all text before it. `model`
  /// and `config` stand in it as objects, so reading gives them in other lines, with equal values.
  /// Throws IoError if parse would refuse the text: better no checkpoint than one that none reads.
  [[nodiscard]] std::string to_string() const;
  /// Reads one. Throws DamagedFile that names `file`, the field and what is wrong: a hash that
  /// differs, no JSON, a field that is missing, unknown, given twice or of another kind, paths that
  /// leave the folder, slices that do not cover a file. A format of a later program is no damage:
  /// that is another IoError. Format 1 says nothing of data. It takes memory in proportion to the
  /// text, whatever that claims.
  [[nodiscard]] static Manifest parse(std::string_view text, const std::filesystem::path& file);
};

/// The manifest's name in a checkpoint's folder.
inline constexpr std::string_view kManifestName = "manifest.json";
/// A longer manifest is not read. One of 70B parameters, and so 840 GB, has about 2 MiB.
inline constexpr std::size_t kMostManifestBytes = std::size_t{256} << 20;
/// Reads the manifest of a checkpoint's folder, and checks that its files are there and as long as
/// it says. Throws DamagedFile if they are not, and another IoError if the system does not tell.
[[nodiscard]] Manifest read_manifest(const Files& files, const std::filesystem::path& checkpoint);
/// Returns a file of a checkpoint, or nothing if its manifest names none of this path. Throws
/// IoError if its bytes are not what the manifest says, or more than `most_bytes`.
[[nodiscard]] std::optional<std::string> read_small_file(const Files& files,
                                                         const std::filesystem::path& checkpoint,
                                                         const Manifest& manifest,
                                                         std::string_view path,
                                                         std::size_t most_bytes);

}  // namespace strata
