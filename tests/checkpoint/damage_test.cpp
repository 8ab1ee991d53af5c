// Tests that no damaged checkpoint is taken: each byte of each file counts, and so do names,
// lengths and what belongs together. Whoever refuses one names the file.

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/file_places.h"
#include "checkpoint/memory_files.h"
#include "checkpoint/small_saves.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/random.h"
#include "strata/base/text.h"
#include "strata/checkpoint/checkpoint_folder.h"
#include "strata/checkpoint/checkpoint_save.h"
#include "strata/checkpoint/load_state.h"
#include "strata/engine/state_choices.h"
#include "strata/model/families.h"
#include "strata/ops/backend.h"
#include "support/catch.h"
#include "support/sanitized.h"
#include "support/tiny_model.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;

/// The state of a rank on a cpu device, to load checkpoints into.
class Home {
 public:
  explicit Home(const LlamaConfig& model)
      : layout_(make_layout(spec_of(model))),
        backend_(make_backend(BackendKind::kCpu, options())),
        device_(*backend_.device, Space::kDevice, kMiB, "device"),
        pinned_(*backend_.device, Space::kPinned, kMiB, "pinned"),
        pageable_(*backend_.device, Space::kPageable, kMiB, "pageable"),
        arenas_(device_, pinned_, pageable_),
        state_(layout_, plan_state(layout_, {.compute = DType::kBF16}), arenas_),
        memory_(kMiB),
        buffers_(memory_, kMiB / 2) {}

  void load(const Files& files, const FoundCheckpoint& from, WorkProgress* work = nullptr) {
    load_state(files, from.folder, from.manifest, state_, pool_, buffers_, nullptr, work);
  }
  void verify(const Files& files, const FoundCheckpoint& from, WorkProgress* work = nullptr) {
    verify_checkpoint(files, from.folder, from.manifest, pool_, buffers_, work);
  }
  [[nodiscard]] const TrainingState& state() const { return state_; }

 private:
  static BackendOptions options() {
    BackendOptions o;
    o.threads = 1;
    return o;
  }
  ModelLayout layout_;
  Backend backend_;
  Arena device_, pinned_, pageable_;
  Arenas arenas_;
  TrainingState state_;
  ThreadPool pool_{1};
  std::vector<std::byte> memory_;
  WindowBuffers buffers_;
};

/// Checkpoints of steps 1 and 2 of a run, of which each case damages its own copy.
class Damaged {
 public:
  Damaged() : home_(smallest_model()) {
    SmallSavesOptions options;
    options.retention.keep = 2;
    SmallSaves saves(options);
    for (const std::int64_t step : {1, 2}) {
      REQUIRE(saves.save(whole_, step)[0].failure.empty());
    }
    for (const ManifestFile& file : read_manifest(whole_, second()).files) {
      paths_.push_back(file.path);
    }
    paths_.emplace_back(kManifestName);
  }

  [[nodiscard]] static fs::path first() {
    return fs::path(SmallSaves::kFolder) / checkpoint_name(1);
  }
  [[nodiscard]] static fs::path second() {
    return fs::path(SmallSaves::kFolder) / checkpoint_name(2);
  }
  /// Returns the files of a checkpoint, the manifest last.
  [[nodiscard]] const std::vector<std::string>& paths() const { return paths_; }
  [[nodiscard]] const MemoryFiles& whole() const { return whole_; }

  /// Returns what is said of the damage: by newest_checkpoint, which then takes the one before it,
  /// or by verify_checkpoint and by load_state.
  std::vector<std::string> refusals(const std::function<void(MemoryFiles&)>& damage) {
    ++cases_;
    const auto files = whole_.crash_state(whole_.operations(), 0);
    damage(*files);
    std::vector<std::string> skipped;
    const auto found = newest_checkpoint(*files, SmallSaves::kFolder, skipped);
    if (!skipped.empty()) {
      REQUIRE(found.has_value());
      REQUIRE(found->manifest.step == 1);
      home_.load(*files, *found);
      return {skipped.front()};
    }
    return {io_error_of([&] { home_.verify(*files, *found); }),
            io_error_of([&] { home_.load(*files, *found); })};
  }
  /// Checks that the damage is refused with this path named.
  void check(const std::string& path, const std::function<void(MemoryFiles&)>& damage) {
    for (const std::string& said : refusals(damage)) {
      if (said.find(path) != std::string::npos) continue;
      INFO("case " << cases_ << ", " << path << ": " << said);
      FAIL_CHECK("damage was not refused, or the file not named");
    }
  }
  [[nodiscard]] std::size_t cases() const { return cases_; }

 private:
  Home home_;
  MemoryFiles whole_{"/run"};
  std::vector<std::string> paths_;
  std::size_t cases_ = 0;
};

void flip(MemoryFiles& files, const fs::path& file, std::uint64_t bit) {
  std::array<std::byte, 1> byte{};
  files.open(file)->read(bit / 8, byte);
  byte[0] ^= static_cast<std::byte>(1 << (bit % 8));
  files.open_to_write(file)->write(bit / 8, byte);
}

void write_over(MemoryFiles& files, const fs::path& file, const std::string& text) {
  const auto writer = files.open_to_write(file);
  writer->reserve(text.size());
  writer->write(0, std::as_bytes(std::span(text)));
}

std::string text_of(const MemoryFiles& files, const fs::path& file) {
  return read_whole(files, file, kMiB);
}

}  // namespace

TEST_CASE("loading a checkpoint and verifying it count every byte") {
  const Damaged damaged;
  std::vector<std::string> skipped;
  const auto found = newest_checkpoint(damaged.whole(), SmallSaves::kFolder, skipped);
  REQUIRE(found.has_value());
  std::uint64_t bytes = 0;
  for (const ManifestFile& file : found->manifest.files) bytes += file.bytes;
  double now_s = 0;
  WorkProgress work([&] { return now_s; });
  Home home(smallest_model());
  work.begin("verify", {bytes, "bytes"});
  home.verify(damaged.whole(), *found, &work);
  now_s = 10;
  const std::string all = format_count(static_cast<std::int64_t>(bytes));
  CHECK_THAT(work.text(), ContainsSubstring("verify: " + all + "/" + all + " bytes"));
  work.end();
  home.load(damaged.whole(), *found, &work);  // says itself how much that is
  now_s = 20;
  const std::string text = work.text();
  INFO(text);
  const std::size_t slash = text.find('/');
  const std::string done = text.substr(text.find(": ") + 2, slash - text.find(": ") - 2);
  CHECK(text.starts_with("reading the checkpoint: "));
  CHECK(text.substr(slash + 1).starts_with(done + ", "));
  CHECK_THAT(text, ContainsSubstring(", 0s left"));
}

TEST_CASE("no flipped bit of any file of a checkpoint is taken", "[one_thread]") {
  Damaged checkpoints;
  for (const std::string& path : checkpoints.paths()) {
    const fs::path file = Damaged::second() / path;
    const std::uint64_t bits = checkpoints.whole().open(file)->bytes() * 8;
    for (std::uint64_t i = 0; i < draws(300); ++i) {
      const std::uint64_t bit = random_bits(1, bits, i) % bits;
      checkpoints.check(path, [&](MemoryFiles& files) { flip(files, file, bit); });
    }
  }
  CHECK(checkpoints.cases() >= draws(2500));
}

TEST_CASE("no file of a checkpoint that is cut, grown, gone or emptied is taken", "[one_thread]") {
  Damaged checkpoints;
  for (const std::string& path : checkpoints.paths()) {
    const fs::path file = Damaged::second() / path;
    const std::uint64_t bytes = checkpoints.whole().open(file)->bytes();
    for (std::uint64_t i = 0; i < draws(100); ++i) {
      const std::uint64_t length = i == 0   ? 0
                                   : i == 1 ? bytes - 1
                                            : random_bits(2, bytes, i) % bytes;
      checkpoints.check(path,
                        [&](MemoryFiles& files) { files.open_to_write(file)->reserve(length); });
      checkpoints.check(path, [&](MemoryFiles& files) {
        const auto writer = files.open_to_write(file);  // the end is lost, the length is not
        writer->reserve(length);
        writer->reserve(bytes + (i % 2 == 0 || length + 8 > bytes ? i + 1 : 0));
        const std::array<std::byte, 1> mark{std::byte{0xA5}};
        if (length < bytes) writer->write(length, mark);
      });
    }
    checkpoints.check(path == kManifestName ? "manifest.json" : path,
                      [&](MemoryFiles& files) { files.remove(file); });
    checkpoints.check(path == kManifestName ? "manifest.json" : path, [&](MemoryFiles& files) {
      files.remove(file);
      files.make_folder(file);
    });
  }
  CHECK(checkpoints.cases() >= draws(1500));
}

TEST_CASE("no file of a checkpoint that took another's place is taken") {
  Damaged checkpoints;
  for (const std::string& path : checkpoints.paths()) {
    // From the checkpoint before.
    checkpoints.check(path == kManifestName ? "step-00000002" : path, [&](MemoryFiles& files) {
      if (text_of(files, Damaged::first() / path) == text_of(files, Damaged::second() / path)) {
        return flip(files, Damaged::second() / path, 0);  // the same in both: config.json, index
      }
      files.rename(Damaged::first() / path, Damaged::second() / path);
    });
    for (const std::string& other : checkpoints.paths()) {
      if (other <= path) continue;
      checkpoints.check(path, [&](MemoryFiles& files) {
        const std::string one = text_of(files, Damaged::second() / path);
        const std::string two = text_of(files, Damaged::second() / other);
        write_over(files, Damaged::second() / path, two);
        write_over(files, Damaged::second() / other, one);
      });
    }
  }
}

TEST_CASE("no fuzzed manifest of a checkpoint is taken", "[one_thread]") {
  Damaged checkpoints;
  const fs::path file = Damaged::second() / kManifestName;
  const std::string whole = text_of(checkpoints.whole(), file);
  for (std::uint64_t i = 0; i < draws(1500); ++i) {
    auto dice = [&, n = std::uint64_t{0}](std::uint64_t below) mutable {
      return static_cast<std::size_t>(random_bits(3, i, n++) % below);
    };
    std::string text = whole;
    const std::size_t kind = dice(5);
    const std::size_t at = dice(text.size());
    const std::size_t count = 1 + dice(40);
    if (kind == 0) text.erase(at, count);
    if (kind == 1) text.insert(at, whole.substr(dice(text.size()), count));
    if (kind == 2) text[at] = static_cast<char>(dice(256));
    if (kind == 3) text.replace(at, count, "99999999999999999999");
    if (kind == 4) text.insert(at, count, "[{\"0"[dice(4)]);
    if (text == whole) continue;
    checkpoints.check("manifest.json", [&](MemoryFiles& files) { write_over(files, file, text); });
  }
  CHECK(checkpoints.cases() > draws(1400));
}

TEST_CASE("no fuzzed header of a checkpoint's files is taken", "[one_thread]") {
  Damaged checkpoints;
  for (const std::string& path : checkpoints.paths()) {
    if (!path.ends_with(".safetensors")) continue;
    const fs::path file = Damaged::second() / path;
    const std::string whole = text_of(checkpoints.whole(), file);
    for (std::uint64_t i = 0; i < draws(100); ++i) {
      std::string text = whole;
      const auto at = static_cast<std::size_t>(random_bits(4, i, 0) % 300);
      const std::uint64_t bits = random_bits(4, i, 1);
      text.replace(at, 1 + i % 8, reinterpret_cast<const char*>(&bits), 1 + i % 8);
      if (text == whole) continue;
      checkpoints.check(path, [&](MemoryFiles& files) { write_over(files, file, text); });
    }
  }
  CHECK(checkpoints.cases() > draws(500));
}

TEST_CASE("a checkpoint of another model is refused before anything is changed") {
  SmallSavesOptions options;
  options.model = tiny_model();
  MemoryFiles files("/run");
  SmallSaves saves(options);
  REQUIRE(saves.save(files, 1)[0].failure.empty());
  std::vector<std::string> skipped;
  const auto found = newest_checkpoint(files, SmallSaves::kFolder, skipped);
  REQUIRE(found.has_value());
  Home home(smallest_model());
  CHECK_THROWS_WITH(home.load(files, *found),
                    ContainsSubstring("step-00000001") && ContainsSubstring("another model"));
}

TEST_CASE("a checkpoint by several ranks loads on one, every bit of it") {
  for (const int ranks : {1, 2, 3}) {
    SmallSavesOptions options;
    options.ranks = ranks;
    MemoryFiles files("/run");
    SmallSaves saves(options);
    REQUIRE(saves.save(files, 7)[0].failure.empty());
    std::vector<std::string> skipped;
    const auto found = newest_checkpoint(files, SmallSaves::kFolder, skipped);
    Home home(smallest_model());
    home.load(files, *found);
    for (const BlockId b : saves.model().blocks.ids()) {
      for (const StatePart part : {StatePart::kLow, StatePart::kM, StatePart::kV}) {
        std::vector<std::byte> saved;
        for (int rank = 0; rank < ranks; ++rank) {
          const std::vector<std::byte> bytes = saves.saved_bytes(7, rank, b, part);
          saved.insert(saved.end(), bytes.begin(), bytes.end());
        }
        const std::size_t bytes = static_cast<std::size_t>(saves.model().blocks[b].elements) *
                                  options.types.bytes_of(part);
        const TensorView& loaded =
            home.state().block(b).*kUpdatedTensors[static_cast<std::size_t>(part)];
        CHECK(std::memcmp(loaded.data, saved.data(), bytes) == 0);
      }
    }
  }
}

}  // namespace strata::test
