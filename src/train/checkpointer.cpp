// What identifies a run goes into each manifest: the program, the resolved config and the model. A
// model that was imported keeps the keys and tokenizer files of its folder, and so does one that
// goes on from a checkpoint, whose own model folder has them.

#include "strata/train/checkpointer.h"

#include <algorithm>
#include <array>
#include <span>
#include <system_error>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/version.h"
#include "strata/checkpoint/load_state.h"
#include "strata/launch/rank_agreement.h"
#include "strata/model/generation_defaults.h"
#include "strata/runfiles/run_folder.h"
#include "strata/train/resume.h"
#include "train/model_companions.h"

namespace strata {

namespace {

/// Returns the bytes of a buffer that holds any window of a checkpoint's files.
std::size_t window_bytes(const Manifest& manifest) {
  std::uint64_t longest = 0;
  for (const ManifestFile& file : manifest.files) longest = std::max(longest, file.bytes);
  return round_up(static_cast<std::size_t>(std::min(longest, kHashWindow)), kFileAlignment) +
         kFileAlignment;
}

std::filesystem::path plans_of_run(const CheckpointPlace& place) {
  return place.run() / kPlansName;
}

/// Returns the plans of the run, and the files of the model's folder that hold no weights.
std::vector<SmallFile> small_files(const CheckpointPlace& place, const RunConfig& config,
                                   const Setup& setup, const CheckpointLayout& layout) {
  const Companions companions = companions_of_run(place, config);
  std::vector<SmallFile> files =
      model_folder_files(layout, *setup.model, config.model.llama, companions.files);
  for (SmallFile& file : files) {
    if (file.path != std::string(kModelFolder) + "config.json") continue;
    file.contents = config_text_with_ends(file.contents, companions.begin, companions.end);
  }
  const std::filesystem::path plans = plans_of_run(place);
  if (place.files->kind(plans) != Files::Kind::kNothing) {
    files.push_back({std::string(kPlansName), read_whole(*place.files, plans, kMostPlanBytes)});
  }
  return files;
}

/// Returns them on all ranks, or throws on all if one cannot read them.
std::vector<SmallFile> agreed_small_files(const CheckpointPlace& place, const RunConfig& config,
                                          const Setup& setup, const CheckpointLayout& layout,
                                          Ranks& ranks) {
  std::vector<SmallFile> files;
  fail_together(ranks, [&] { files = small_files(place, config, setup, layout); });
  return files;
}

/// What a rank has to say to the others of a checkpoint that it reads; empty: it could.
struct ReadFailure {
  std::string damage;   ///< was found in what it read
  std::string refusal;  ///< of the system, so that nobody knows what is there
};

/// Reads, and returns what came in between.
ReadFailure failure_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const DamagedFile& error) {
    return {.damage = error.what(), .refusal = {}};
  } catch (const DamagedCheckpoint&) {  // all ranks know it
    throw;
  } catch (const IoError& error) {
    return {.damage = {}, .refusal = error.what()};
  }
  return {};
}

/// Throws on all ranks if one has failed. What one cannot read may be whole, so that counts before
/// what another has found: nobody passes over a checkpoint then.
void meet(const ReadFailure& own, Ranks& ranks) {
  fail_together(ranks, [&] {
    if (!own.refusal.empty()) throw IoError(own.refusal + std::string(kNameAnother));
  });
  for (const std::string& damage : gather_texts(own.damage, ranks)) {
    if (!damage.empty()) throw DamagedCheckpoint(damage);
  }
}

}  // namespace

bool CheckpointPlace::resumes_own() const {
  if (!resume) return false;
  const auto same_for_all = [](const std::filesystem::path& path) {
    std::error_code error;
    const std::filesystem::path found =
        std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
    return error ? path.lexically_normal() : found;
  };
  return same_for_all(resume->folder) ==
         same_for_all(folder / checkpoint_name(resume->manifest.step));
}

std::int64_t CheckpointPlace::first_sample() const {
  const std::int64_t consumed = resume ? resume->manifest.samples : 0;
  return skipped.empty() ? consumed : std::max(consumed, skipped.back().end);
}

std::int64_t CheckpointPlace::trained_samples() const {
  return first_sample() - samples_in(skipped);
}

Validations CheckpointPlace::validations() const {
  if (!resume) return {};
  const Manifest& manifest = resume->manifest;
  const bool of_other_data = data.validation_since > manifest.data.validation_since;
  return of_other_data ? Validations() : manifest.validations;
}

void load_checkpoint(const Files& files, const FoundCheckpoint& from, TrainingEngine& engine,
                     ThreadPool& pool, Ranks& ranks, const std::function<void()>& may_end,
                     WorkProgress* work) {
  // The buffers of saves are made for the files of this run. Where it saves nothing, or the
  // checkpoint's files have other dtypes, others are taken for as long as it is read.
  const std::size_t each = window_bytes(from.manifest);
  WindowBuffers* buffers = engine.snapshots() != nullptr ? &engine.snapshots()->buffers() : nullptr;
  std::vector<std::byte> memory;
  std::optional<WindowBuffers> own;
  if (buffers == nullptr || buffers->bytes_each() < each) {
    constexpr std::size_t kMost = 8;
    const std::size_t count = std::min(static_cast<std::size_t>(pool.threads()), kMost);
    memory.resize(count * each + kFileAlignment);
    buffers = &own.emplace(memory, each);
  }
  // All ranks meet between the blocks and at the end. One that cannot read says so where it would
  // have met the others next.
  const auto meet_or_end = [&](const ReadFailure& failure) {
    meet(failure, ranks);
    if (may_end) may_end();
  };
  meet_or_end(failure_of([&] {
    load_state(
        files, from.folder, from.manifest, engine.state(), pool, *buffers, [&] { meet_or_end({}); },
        work);
  }));
  engine.resume(from.manifest.history);
}

void restore_plans(const CheckpointPlace& place, Ranks& ranks) {
  std::optional<std::string> plans;
  const std::filesystem::path file = plans_of_run(place);
  const ReadFailure own = failure_of([&] {
    if (ranks.rank() != 0 || !place.resume) return;
    if (place.files->kind(file) != Files::Kind::kNothing) return;
    plans = read_small_file(*place.files, place.resume->folder, place.resume->manifest, kPlansName,
                            kMostPlanBytes);
  });
  meet(own, ranks);
  if (!plans) return;
  const std::filesystem::path unfinished = file.string() + ".tmp";
  if (place.files->kind(unfinished) != Files::Kind::kNothing) place.files->remove(unfinished);
  write_whole(*place.files, unfinished, std::as_bytes(std::span(*plans)));
  place.files->rename(unfinished, file);
}

Checkpointer::Checkpointer(const CheckpointPlace& place, const RunConfig& config,
                           const Setup& setup, double write_gbs, TrainingEngine& engine,
                           RankGroups& groups)
    : place_(place),
      config_(config),
      setup_(setup),
      writer_(*engine.snapshots()),
      weights_(make_checkpoint_layout(*setup.model, setup.snapshots->types.weights_alone())),
      groups_(groups),
      small_files_(agreed_small_files(place, config, setup, writer_.layout(), groups.world())),
      expected_s_(write_gbs > 0 ? static_cast<double>(writer_.layout().bytes()) / 1e9 / write_gbs
                                : 0) {}

Saves Checkpointer::make_saves(const SaveKinds& kinds, std::int64_t steps, std::int64_t samples) {
  const CheckpointSection& config = config_.checkpoint;
  Manifest facts;
  facts.step = steps;
  facts.samples = samples;
  facts.skipped = place_.skipped;
  facts.data = place_.data;
  // A run may go back to before the step that it began with.
  facts.data.validation_since = std::min(facts.data.validation_since, place_.first_step());
  facts.validations = validations_;
  facts.program = version_text(build_info());
  facts.model = write_fields(config_.model.llama);
  facts.config = write_fields(config_);
  ++saves_;
  std::uint64_t bytes = 0;
  if (kinds.whole) bytes += writer_.layout().bytes();
  if (kinds.weights) bytes += weights_.bytes();
  const auto sharers = static_cast<std::uint64_t>(groups_.shard().size());
  work_.begin("saving a checkpoint", {.total = bytes / sharers});
  Saves saves;
  if (kinds.whole) {
    saves.push_back(make_save(facts, writer_.layout(), kCheckpointsName,
                              {.keep = config.keep,
                               .keep_best = config.keep_best,
                               .milestone_steps = config.milestone_steps}));
  }
  if (kinds.weights) {
    saves.push_back(make_save(facts, weights_, kWeightsName, {.keep = config.weights_keep}));
  }
  return saves;
}

/// Makes the save of one kind into a folder of the run.
std::shared_ptr<CheckpointSave> Checkpointer::make_save(const Manifest& facts,
                                                        const CheckpointLayout& layout,
                                                        std::string_view folder,
                                                        const Retention& retention) {
  Manifest own = facts;
  own.types = layout.types;
  return std::make_shared<CheckpointSave>(
      SaveParts{
          .files = *place_.files,
          .world = groups_.world(),
          .shard = groups_.shard(),
          .replica = groups_.place().replica,
          .model = *setup_.model,
          .layout = layout,
          .small_files = small_files_,
          .writers = writer_.writers(),
          .buffers = writer_.buffers(),
          .folder = place_.run() / folder,
          .retention = retention,
          .commit = facts.step == validation_of_ ? CommitWhen::kValidated : CommitWhen::kWritten,
          .work = &work_},
      std::move(own), checkpoint_name(facts.step) + "-" + std::to_string(saves_));
}

std::vector<SaveReport> Checkpointer::take_reports() {
  std::vector<SaveReport> reports = writer_.take_reports();
  if (!reports.empty()) work_.end();
  return reports;
}

void Checkpointer::save_now(const SaveKinds& kinds, std::int64_t steps, std::int64_t samples,
                            const std::function<void()>& meanwhile) {
  writer_.write_now(make_saves(kinds, steps, samples));
  writer_.wait(meanwhile);
}

}  // namespace strata
