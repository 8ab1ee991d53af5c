#include "checkpoint/small_saves.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/random.h"
#include "strata/checkpoint/load_state.h"
#include "strata/model/families.h"
#include "support/thread_ranks.h"

namespace strata::test {

namespace {

namespace fs = std::filesystem;

}  // namespace

LlamaConfig smallest_model() {
  LlamaConfig m;
  m.vocab_size = 5;
  m.hidden_size = 4;
  m.intermediate_size = 3;
  m.num_hidden_layers = 1;
  m.num_attention_heads = 1;
  m.num_key_value_heads = 1;
  m.head_dim = 4;
  m.max_position_embeddings = 8;
  return m;
}

/// While ranks write their shares each operation needs a turn, so that the same seed gives the same
/// order.
class SmallSaves::Turns {
 public:
  Turns(int ranks, std::uint64_t seed) : seed_(seed) {
    for (int rank = 0; rank < ranks; ++rank) writing_.push_back(rank);
    next();
  }

  /// Calls `operation` when it is this rank's turn.
  template <class Operation>
  auto take(int rank, const Operation& operation) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == rank; });
    struct Next {
      Turns& turns;
      ~Next() {
        turns.next();
        turns.changed_.notify_all();
      }
    } const next_turn{*this};
    return operation();
  }
  /// Says that the rank has written its share.
  void leave(int rank) {
    take(rank, [&] { std::erase(writing_, rank); });
  }

 private:
  void next() {
    if (writing_.empty()) return;
    turn_ = writing_[random_bits(seed_, 0, turns_++) % writing_.size()];
  }

  std::uint64_t seed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> writing_;  ///< guarded by mutex_, as all below
  std::uint64_t turns_ = 0;
  int turn_ = 0;
};

namespace {

/// The files of one rank: takes turns while `turns` is set, and leaves syncs out.
template <class Turns>
class RankFiles final : public Files {
 public:
  RankFiles(Files& under, int rank, const LeaveOut& leave_out)
      : under_(under), rank_(rank), leave_out_(leave_out) {}

  void take_turns(Turns* turns) { turns_ = turns; }

  std::unique_ptr<FileWriter> create(const Path& file) override {
    return in_turn([&] { return writer(under_.create(file), SyncOf::kCreated, file); });
  }
  std::unique_ptr<FileWriter> open_to_write(const Path& file) override {
    return in_turn([&] { return writer(under_.open_to_write(file), SyncOf::kShare, file); });
  }
  [[nodiscard]] std::unique_ptr<FileReader> open(const Path& file) const override {
    return under_.open(file);
  }
  void make_folder(const Path& folder) override {
    in_turn([&] { under_.make_folder(folder); });
  }
  void rename(const Path& from, const Path& to) override {
    in_turn([&] { under_.rename(from, to); });
  }
  void remove(const Path& path) override {
    in_turn([&] { under_.remove(path); });
  }
  void sync_folder(const Path& folder) override {
    in_turn([&] {
      if (!left_out(SyncOf::kFolder, folder)) under_.sync_folder(folder);
    });
  }
  [[nodiscard]] Kind kind(const Path& path) const override { return under_.kind(path); }
  [[nodiscard]] std::vector<std::string> list(const Path& folder) const override {
    return under_.list(folder);
  }
  [[nodiscard]] std::optional<std::uint64_t> free_bytes(const Path& folder) const override {
    return under_.free_bytes(folder);
  }

 private:
  class Writer final : public FileWriter {
   public:
    Writer(RankFiles& files, std::unique_ptr<FileWriter> under, SyncOf of, Path path)
        : files_(files), under_(std::move(under)), of_(of), path_(std::move(path)) {}
    void reserve(std::uint64_t bytes) override {
      files_.in_turn([&] { under_->reserve(bytes); });
    }
    void write(std::uint64_t offset, std::span<const std::byte> bytes) override {
      files_.in_turn([&] { under_->write(offset, bytes); });
    }
    void sync() override {
      files_.in_turn([&] {
        if (!files_.left_out(of_, path_)) under_->sync();
      });
    }

   private:
    RankFiles& files_;
    std::unique_ptr<FileWriter> under_;
    SyncOf of_;
    Path path_;
  };

  std::unique_ptr<FileWriter> writer(std::unique_ptr<FileWriter> under, SyncOf of,
                                     const Path& path) {
    return std::make_unique<Writer>(*this, std::move(under), of, path);
  }
  [[nodiscard]] bool left_out(SyncOf of, const Path& path) const {
    return leave_out_ && leave_out_(of, path);
  }
  template <class Operation>
  auto in_turn(const Operation& operation) {
    if (turns_ == nullptr) return operation();
    return turns_->take(rank_, operation);
  }

  Files& under_;
  int rank_;
  const LeaveOut& leave_out_;
  Turns* turns_ = nullptr;
};

}  // namespace

SmallSaves::SmallSaves(SmallSavesOptions options)
    : options_(std::move(options)),
      model_(make_layout(spec_of(options_.model))),
      layout_(make_checkpoint_layout(model_, options_.types)),
      small_files_(model_folder_files(layout_, model_, options_.model)) {}

std::vector<std::byte> SmallSaves::saved_bytes(std::int64_t step, int rank, BlockId block,
                                               StatePart part) const {
  const Block& b = model_.blocks[block];
  const std::size_t each = options_.types.bytes_of(part);
  const auto shard = static_cast<std::size_t>(b.shard_elements(options_.ranks));
  const std::size_t begin = static_cast<std::size_t>(rank) * shard;
  std::vector<std::byte> bytes(shard * each);
  const std::uint64_t stream = block.index() * 4 + static_cast<std::uint64_t>(part);
  for (std::size_t i = 0; i < shard; ++i) {
    const std::uint64_t bits = random_bits(static_cast<std::uint64_t>(step), stream,
                                           static_cast<std::uint64_t>(begin + i));
    std::memcpy(bytes.data() + i * each, &bits, each);
  }
  return bytes;
}

std::vector<SaveReport> SmallSaves::save(Files& files, std::int64_t step, Until until) {
  ++saves_;
  turns_ = std::make_shared<Turns>(
      options_.ranks, random_bits(options_.seed, 1, static_cast<std::uint64_t>(saves_)));
  std::vector<SaveReport> reports(static_cast<std::size_t>(options_.ranks));
  if (options_.ranks == 1) {
    save_on(*make_self_ranks(), files, step, until, reports);
  } else {
    run_ranks(options_.ranks, [&](Ranks& ranks) { save_on(ranks, files, step, until, reports); });
  }
  return reports;
}

void SmallSaves::save_on(Ranks& ranks, Files& files, std::int64_t step, Until until,
                         std::vector<SaveReport>& reports) {
  RankFiles<Turns> own(files, ranks.rank(), options_.leave_out);
  ThreadPool pool(1);
  const std::size_t each = WindowBuffers::bytes_for(layout_) + kFileAlignment;
  std::vector<std::byte> memory(each + kFileAlignment);
  WindowBuffers buffers(memory, each);
  Manifest facts;
  facts.step = step;
  facts.samples = 10 * step;
  facts.program = "test";
  facts.types = options_.types;
  CheckpointSave save(SaveParts{.files = own,
                                .world = ranks,
                                .shard = ranks,
                                .replica = 0,
                                .model = model_,
                                .layout = layout_,
                                .small_files = small_files_,
                                .writers = pool,
                                .buffers = buffers,
                                .folder = kFolder,
                                .retention = options_.retention},
                      facts, checkpoint_name(step) + "-" + std::to_string(saves_));
  save.prepare();
  if (ranks.size() > 1) own.take_turns(turns_.get());
  for (const BlockId b : model_.blocks.ids()) {
    std::array<std::vector<std::byte>, 4> bytes;
    BlockState state;
    state.begin = model_.blocks[b].shard_elements(options_.ranks) * ranks.rank();
    for (std::size_t part = 0; part < bytes.size(); ++part) {
      bytes[part] = saved_bytes(step, ranks.rank(), b, static_cast<StatePart>(part));
      (state.*kUpdatedTensors[part]).data = bytes[part].data();
    }
    save.write(b, state);
  }
  own.take_turns(nullptr);
  turns_->leave(ranks.rank());
  if (until == Until::kWritten) return;
  save.tell({.history = {.updates = step, .bad_in_a_row = 0, .statistics = {}},
             .loss = 2.5,
             .grad_norm = 1});
  save.commit();
  reports[static_cast<std::size_t>(ranks.rank())] = save.report();
}

Manifest read_all(const Files& files, const std::filesystem::path& checkpoint) {
  Manifest manifest = read_manifest(files, checkpoint);
  ThreadPool pool(1);
  std::uint64_t most = 0;
  for (const ManifestFile& file : manifest.files) most = std::max(most, file.bytes);
  const std::size_t each =
      round_up(static_cast<std::size_t>(std::min(most, kHashWindow)), kFileAlignment);
  std::vector<std::byte> memory(each + kFileAlignment);
  WindowBuffers buffers(memory, each);
  verify_checkpoint(files, checkpoint, manifest, pool, buffers);
  return manifest;
}

}  // namespace strata::test
