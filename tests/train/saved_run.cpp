// Drives sessions as `train` does, less its metrics, and reads back what they saved.

#include "train/saved_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <span>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/convert.h"
#include "strata/base/fields.h"
#include "support/thread_ranks.h"
#include "support/tiny_config.h"

namespace strata::test {

namespace {

class HookedWriter final : public FileWriter {
 public:
  HookedWriter(std::unique_ptr<FileWriter> writer, const std::function<void()>& before_write)
      : writer_(std::move(writer)), before_write_(before_write) {}
  void reserve(std::uint64_t bytes) override { writer_->reserve(bytes); }
  void write(std::uint64_t offset, std::span<const std::byte> bytes) override {
    before_write_();
    writer_->write(offset, bytes);
  }
  void sync() override { writer_->sync(); }
  [[nodiscard]] bool direct() const override { return writer_->direct(); }

 private:
  std::unique_ptr<FileWriter> writer_;
  const std::function<void()>& before_write_;
};

/// Runs one rank.
SavedRun train_rank(const RunConfig& config, Ranks& ranks, const SaveSchedule& schedule,
                    const SessionHooks& hooks) {
  Session session(config, ranks, hooks);
  SavedRun result;
  Checkpointer* checkpoints = session.checkpoints();
  const auto take_reports = [&] {
    std::ranges::copy(checkpoints->take_reports(), std::back_inserter(result.reports));
  };
  bool due = false;
  for (std::int64_t step = session.first_step(); step < schedule.steps; ++step) {
    if (schedule.before_step) schedule.before_step(session, step);
    due = due || std::ranges::find(schedule.after, step + 1) != schedule.after.end();
    const bool begun =
        session.submit(step, config.optimizer.lr, due ? schedule.kinds : SaveKinds{}).any();
    result.waits += due && !begun ? 1 : 0;
    due = due && !begun;
    take_reports();
  }
  session.synchronize();
  checkpoints->wait();
  take_reports();
  if (schedule.at_end) {
    checkpoints->save_now(schedule.kinds, schedule.steps, session.samples_after(schedule.steps));
    take_reports();
  }
  for (const FinishedStep& finished : session.take_finished()) {
    result.run.losses.push_back(finished.outcome.loss.value_or(0));  // none: 0
    result.run.norms.push_back(finished.outcome.grad_norm);
    result.missed.push_back(finished.outcome.missed);
  }
  result.run.weights = gather_weights(session.state(), session.groups().shard());
  return result;
}

/// Returns what a moment is, by what its codes mean if it has any.
std::vector<double> moment_of(const BlockState& state, Moment moment) {
  const bool first = moment == Moment::kFirst;
  const TensorView& tensor = first ? state.m : state.v;
  if (tensor.dtype != kMomentCode) return load_as_double(tensor);
  const auto* codes = tensor.as<std::uint8_t>();
  const auto* scales = state.scale.as<std::uint8_t>();
  std::vector<double> values;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const int code = first ? codes[i] % 128 : codes[i];
    const double number = code < 16 ? code : (16 + code % 16) * std::exp2(code / 16 - 1);
    const double size = number * std::exp2(scales[i / 64 * 2 + (first ? 0 : 1)] - 127);
    values.push_back(code == codes[i] ? size : -size);
  }
  return values;
}

}  // namespace

SessionHooks hooks_of(Files& files, std::optional<std::int64_t> from) {
  SessionHooks hooks;
  hooks.checkpoints = CheckpointPlace{.files = &files, .folder = kCheckpoints, .resume = {}};
  if (from) {
    const std::filesystem::path folder = kCheckpoints / checkpoint_name(*from);
    hooks.checkpoints->resume = FoundCheckpoint{folder, read_manifest(files, folder)};
  }
  return hooks;
}

SavedRun train_and_save(const RunConfig& config, int ranks, Files& files,
                        const SaveSchedule& schedule, SessionHooks hooks, int on_host) {
  hooks.checkpoints = hooks_of(files, schedule.from).checkpoints;
  std::mutex mutex;
  SavedRun result;
  run_ranks(
      ranks,
      [&](Ranks& group) {
        SessionHooks own = hooks;
        if (group.rank() != 0) own.trace = nullptr;
        SavedRun run = train_rank(config, group, schedule, own);
        const std::lock_guard lock(mutex);
        if (group.rank() == 0) result = std::move(run);
      },
      on_host);
  return result;
}

void add_checkpoint(Files& files, const std::filesystem::path& run, Manifest manifest) {
  for (const std::filesystem::path& folder : {run, run / kCheckpointsName}) {
    if (files.kind(folder) == Files::Kind::kNothing) files.make_folder(folder);
  }
  const std::filesystem::path folder = run / kCheckpointsName / checkpoint_name(manifest.step);
  files.make_folder(folder);
  const std::string text = "weights";
  const auto bytes = std::as_bytes(std::span(text));
  write_whole(files, folder / "weights", bytes);
  if (manifest.config == "{}") manifest.config = write_fields(tiny_config());
  manifest.files = {{.path = "weights",
                     .bytes = text.size(),
                     .slices = {{.begin = 0, .end = text.size(), .windows = {xxh3(bytes)}}}}};
  const std::string facts = manifest.to_string();
  write_whole(files, folder / kManifestName, std::as_bytes(std::span(facts)));
}

FolderContents contents_of(const Files& files, const std::filesystem::path& folder) {
  FolderContents all;
  for (const std::string& name : files.list(folder)) {
    if (files.kind(folder / name) != Files::Kind::kFolder) {
      all[name] = read_whole(files, folder / name, kGiB);
      continue;
    }
    for (auto& [path, bytes] : contents_of(files, folder / name)) {
      all[name + "/" + path] = std::move(bytes);
    }
  }
  return all;
}

FolderContents checkpoint_contents(const Files& files, std::int64_t step, Manifests manifests) {
  FolderContents all = contents_of(files, kCheckpoints / checkpoint_name(step));
  if (manifests == Manifests::kWithout) all.erase(std::string(kManifestName));
  return all;
}

std::string differences(const FolderContents& found, const FolderContents& expected) {
  std::string text;
  for (const auto& [path, bytes] : expected) {
    const auto file = found.find(path);
    if (file == found.end()) {
      text += path + " is missing; ";
    } else if (file->second != bytes) {
      text += path + " differs; ";
    }
  }
  for (const auto& [path, bytes] : found) {
    if (!expected.contains(path)) text += path + " is too much; ";
  }
  return text;
}

WholeState gather_state(Session& session, Ranks& ranks) {
  WholeState whole;
  const TrainingState& state = session.state();
  for (const BlockId b : state.ids()) {
    const Block& block = state.layout().blocks[b];
    const BlockState& own = state.block(b);
    const auto add = [&](const std::string& name, const std::vector<double>& shard) {
      const std::vector<std::byte> bytes =
          ranks.all_gather_host(std::as_bytes(std::span(shard)), Channel::kSubmit);
      std::vector<double> all(bytes.size() / sizeof(double));
      std::memcpy(all.data(), bytes.data(), bytes.size());
      all.resize(static_cast<std::size_t>(block.elements));
      whole.tensors[block.name + " " + name] = std::move(all);
    };
    add("master", state.master(b));
    add("m", moment_of(own, Moment::kFirst));
    add("v", moment_of(own, Moment::kSecond));
  }
  return whole;
}

std::unique_ptr<FileWriter> HookedFiles::create(const Path& file) {
  return std::make_unique<HookedWriter>(files_.create(file), before_write_);
}

std::unique_ptr<FileWriter> HookedFiles::open_to_write(const Path& file) {
  return std::make_unique<HookedWriter>(files_.open_to_write(file), before_write_);
}

}  // namespace strata::test
