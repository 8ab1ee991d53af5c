// Writes a rank's share of a checkpoint. Rank 0 makes the files and publishes them; every rank of
// the first replica fills its slices. Between two votes each rank works alone, so a failure of one
// is a failure of all at the next vote.

#include "strata/checkpoint/checkpoint_save.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <exception>
#include <iterator>
#include <span>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/log.h"
#include "strata/base/process.h"

namespace strata {

namespace {

const TensorView& part_of(const BlockState& state, StatePart part) {
  switch (part) {
    case StatePart::kWeight: return state.weight;
    case StatePart::kLow: return state.low;
    case StatePart::kM: return state.m;
    case StatePart::kV: return state.v;
    case StatePart::kScale: break;
  }
  return state.scale;
}

/// Puts together bytes [window.begin, window.end) of a file from the state.
void gather(const FileSlice& slice, const Window& window, const BlockState& state,
            const CheckpointTypes& types, std::span<std::byte> out) {
  std::ranges::fill(out, std::byte{0});
  for (const FileRun& run : slice.runs) {
    const std::size_t each = types.bytes_of(run.part);
    const std::uint64_t run_end = run.offset + static_cast<std::uint64_t>(run.count) * each;
    const std::uint64_t begin = std::max(run.offset, window.begin);
    const std::uint64_t end = std::min(run_end, window.end);
    if (begin >= end) continue;
    const auto* shard = static_cast<const std::byte*>(part_of(state, run.part).data);
    const std::int64_t shard_begin = state.begin / elements_of_entry(run.part);
    const auto first = static_cast<std::size_t>(run.begin - shard_begin) * each;
    std::memcpy(out.data() + (begin - window.begin), shard + first + (begin - run.offset),
                static_cast<std::size_t>(end - begin));
  }
}

std::vector<std::uint64_t> hash_windows(std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> hashes;
  for (const Window& w : cut_windows(0, bytes.size())) {
    hashes.push_back(xxh3(bytes.subspan(static_cast<std::size_t>(w.begin),
                                        static_cast<std::size_t>(w.end - w.begin))));
  }
  return hashes;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

std::string checkpoint_name(std::int64_t step) { return fmt::format("step-{:08}", step); }

CheckpointSave::CheckpointSave(SaveParts parts, Manifest facts, const std::string& name)
    : p_(std::move(parts)),
      manifest_(std::move(facts)),
      temporary_(p_.folder / (std::string(kTemporaryPrefix) + name)),
      replaced_(p_.folder / (std::string(kTemporaryPrefix) + "replaced-" + name)),
      hashes_(p_.layout.blocks.size()) {
  report_.step = manifest_.step;
  report_.weights_alone = p_.layout.types.are_weights_alone();
  report_.folder = p_.folder / checkpoint_name(manifest_.step);
}

void CheckpointSave::fail(std::string why) {
  if (report_.failure.empty()) report_.failure = std::move(why);
}

/// Calls `body` unless the save has failed; what it throws fails the save.
template <class Body>
void CheckpointSave::attempt(const Body& body) {
  if (!report_.failure.empty()) return;
  try {
    body();
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

/// Returns whether the save has not failed on any rank; if it has, every rank knows why. Every rank
/// calls it.
bool CheckpointSave::vote() {
  if (!p_.world.any_failed(!report_.failure.empty(), Channel::kSave)) return true;
  std::array<char, 1024> own{};
  report_.failure.copy(own.data(), own.size() - 1);
  const std::vector<std::byte> all =
      p_.world.all_gather_host(std::as_bytes(std::span(own)), Channel::kSave);
  for (int rank = 0; rank < p_.world.size(); ++rank) {
    const auto* why =
        reinterpret_cast<const char*>(all.data()) + own.size() * static_cast<std::size_t>(rank);
    if (*why != '\0') fail("rank " + std::to_string(rank) + ": " + why);
  }
  return false;
}

void CheckpointSave::tell(const StepFacts& facts) {
  const std::lock_guard lock(facts_mutex_);
  facts_ = facts;
}

void CheckpointSave::tell(const Validations& validations) {
  manifest_.validations = validations;
  validated_s_ = steady_seconds();
}

void CheckpointSave::prepare() {
  begun_s_ = steady_seconds();
  if (p_.world.rank() == 0) attempt([this] { make_files(); });
  static_cast<void>(vote());
  written_s_ = steady_seconds();
}

std::vector<std::filesystem::path> CheckpointSave::subfolders() const {
  std::vector<std::filesystem::path> folders;
  const auto add_folder_of = [&](const std::string& file) {
    const std::filesystem::path folder = (temporary_ / file).parent_path();
    const bool is_there =
        folder == temporary_ || std::ranges::find(folders, folder) != folders.end();
    if (!is_there) folders.push_back(folder);
  };
  for (const BlockFiles& block : p_.layout.blocks) {
    for (const StateFile* file : block.files()) add_folder_of(file->path);
  }
  for (const SmallFile& file : p_.small_files) add_folder_of(file.path);
  return folders;
}

void CheckpointSave::make_files() {
  Files& files = p_.files;
  if (files.kind(p_.folder) == Files::Kind::kNothing) {
    files.make_folder(p_.folder);
    try {
      files.sync_folder(p_.folder.parent_path());
    } catch (...) {
      files.remove(p_.folder);  // the next save would rely on a name that may be lost
      throw;
    }
  }
  files.make_folder(temporary_);
  for (const std::filesystem::path& folder : subfolders()) files.make_folder(folder);
  for (const BlockFiles& block : p_.layout.blocks) {
    for (const StateFile* file : block.files()) {
      const std::unique_ptr<FileWriter> out = files.create(temporary_ / file->path);
      out->reserve(file->bytes);
      out->write(0, bytes_of(file->header));  // synchronised with this rank's slice of the file
    }
  }
  for (const SmallFile& file : p_.small_files) {
    const std::span<const std::byte> bytes = bytes_of(file.contents);
    write_whole(files, temporary_ / file.path, bytes);
    small_.push_back({.path = file.path, .bytes = bytes.size(), .slices = {}});
    if (!bytes.empty()) {
      small_.back().slices = {{.begin = 0, .end = bytes.size(), .windows = hash_windows(bytes)}};
    }
  }
}

void CheckpointSave::write(BlockId block, const BlockState& state) {
  if (p_.replica > 0) return;
  attempt([&] {
    for (const StateFile* file : p_.layout.blocks[block].files()) {
      write_file(*file, block, state, hashes_[block]);
    }
  });
  written_s_ = steady_seconds();
}

/// Writes this rank's slices of a file and adds the hashes of their windows.
void CheckpointSave::write_file(const StateFile& file, BlockId block, const BlockState& state,
                                std::vector<std::uint64_t>& hashes) {
  struct Piece {
    const FileSlice* slice;
    Window window;
  };
  const std::vector<FileSlice> slices =
      slices_of(file, p_.model.blocks[block], p_.shard.rank(), p_.shard.size(), p_.layout.types);
  std::vector<Piece> pieces;
  for (const FileSlice& slice : slices) {
    for (const Window& window : cut_windows(slice.begin, slice.end)) {
      pieces.push_back({&slice, window});
      report_.bytes += window.end - window.begin;
    }
  }
  if (pieces.empty()) return;
  const std::size_t first = hashes.size();
  hashes.resize(first + pieces.size());
  const std::unique_ptr<FileWriter> out = p_.files.open_to_write(temporary_ / file.path);
  p_.writers.parallel_for(
      static_cast<std::int64_t>(pieces.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
          const auto& [slice, window] = pieces[i];
          const WindowBuffers::Lease buffer(p_.buffers);
          const std::span<std::byte> bytes = buffer.bytes(window.begin, window.end);
          gather(*slice, window, state, p_.layout.types, bytes);
          hashes[first + i] = xxh3(bytes);
          out->write(window.begin, bytes);
          count_work(p_.work, bytes.size());
        }
      });
  out->sync();
}

/// Returns the files of the state with the hashes of all ranks that have written, whole on rank 0.
/// Every one of those calls it.
std::vector<ManifestFile> CheckpointSave::gather_hashes() {
  const int ranks = p_.shard.size();
  const auto slices = [&](const StateFile& file, BlockId block, int rank) {
    return slices_of(file, p_.model.blocks[block], rank, ranks, p_.layout.types);
  };
  std::vector<std::size_t> counts(static_cast<std::size_t>(ranks));
  for (const BlockId b : p_.layout.blocks.ids()) {
    for (const StateFile* file : p_.layout.blocks[b].files()) {
      for (int rank = 0; rank < ranks; ++rank) {
        for (const FileSlice& slice : slices(*file, b, rank)) {
          counts[static_cast<std::size_t>(rank)] += cut_windows(slice.begin, slice.end).size();
        }
      }
    }
  }
  const std::size_t most = *std::ranges::max_element(counts);
  std::vector<std::uint64_t> own;
  for (const std::vector<std::uint64_t>& block : hashes_) {
    own.insert(own.end(), block.begin(), block.end());
  }
  own.resize(most);  // all ranks pass the same number
  const std::vector<std::byte> bytes =
      p_.shard.all_gather_host(std::as_bytes(std::span(own)), Channel::kSave);
  std::vector<std::uint64_t> all(bytes.size() / sizeof(std::uint64_t));
  std::memcpy(all.data(), bytes.data(), all.size() * sizeof(std::uint64_t));

  std::vector<std::size_t> next(static_cast<std::size_t>(ranks));
  std::vector<ManifestFile> files;
  for (const BlockId b : p_.layout.blocks.ids()) {
    for (const StateFile* file : p_.layout.blocks[b].files()) {
      ManifestFile entry{.path = file->path, .bytes = file->bytes, .slices = {}};
      entry.slices.push_back({.begin = 0,
                              .end = file->header.size(),
                              .update = manifest_.history.updates,
                              .windows = hash_windows(bytes_of(file->header))});
      for (int rank = 0; rank < ranks; ++rank) {
        std::size_t& at = next[static_cast<std::size_t>(rank)];
        const std::uint64_t* hash = all.data() + static_cast<std::size_t>(rank) * most;
        for (const FileSlice& slice : slices(*file, b, rank)) {
          const std::size_t windows = cut_windows(slice.begin, slice.end).size();
          entry.slices.push_back({.begin = slice.begin,
                                  .end = slice.end,
                                  .update = manifest_.history.updates,
                                  .windows = {hash + at, hash + at + windows}});
          at += windows;
        }
      }
      std::ranges::sort(entry.slices, {}, &SliceHashes::begin);
      files.push_back(std::move(entry));
    }
  }
  return files;
}

/// Writes the manifest and gives the folder its name.
void CheckpointSave::publish() {
  Files& files = p_.files;
  std::ranges::move(small_, std::back_inserter(manifest_.files));
  std::ranges::sort(manifest_.files, {}, &ManifestFile::path);
  write_whole(files, temporary_ / kManifestName, bytes_of(manifest_.to_string()));
  for (const std::filesystem::path& folder : subfolders()) files.sync_folder(folder);
  files.sync_folder(temporary_);
  // A start sets aside what is past it; whatever has come by this name since then gives way.
  const bool replaces = files.kind(report_.folder) != Files::Kind::kNothing;
  if (replaces) {
    remove_all(files, replaced_);
    files.rename(report_.folder, replaced_);
  }
  bool named = false;
  try {
    files.rename(temporary_, report_.folder);
    named = true;
    files.sync_folder(p_.folder);
  } catch (...) {
    if (named) files.rename(report_.folder, temporary_);  // a crash may take the name away again
    if (replaces) files.rename(replaced_, report_.folder);
    throw;
  }
}

void CheckpointSave::commit() {
  if (vote()) {
    {
      const std::lock_guard lock(facts_mutex_);
      const StepFacts facts = facts_.value();
      manifest_.history = facts.history;
      manifest_.loss = facts.loss;
      manifest_.grad_norm = facts.grad_norm;
      manifest_.finite = std::isfinite(facts.loss.value_or(0)) && std::isfinite(facts.grad_norm);
    }
    if (p_.replica == 0) manifest_.files = gather_hashes();
    if (p_.world.rank() == 0) attempt([this] { publish(); });
    static_cast<void>(vote());
  }
  report_.seconds = steady_seconds() - begun_s_ - std::max(0.0, validated_s_ - written_s_);
  if (p_.world.rank() == 0) clean_up();
}

/// Removes what this save left if it failed, else the checkpoints that it makes superfluous.
void CheckpointSave::clean_up() {
  try {
    if (report_.failure.empty()) {
      remove_all(p_.files, replaced_);
      static_cast<void>(remove_old_checkpoints(p_.files, p_.folder, report_.step, p_.retention));
    } else if (p_.files.kind(temporary_) == Files::Kind::kFolder) {
      remove_all(p_.files, temporary_);
    }
  } catch (const std::exception& error) {
    report_.warning = std::string(error.what()) +
                      "; what is too many goes with the next save or start of the run";
  }
}

}  // namespace strata
