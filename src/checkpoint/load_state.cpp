// Reads checkpoints back. Headers and small files are verified first, by every rank. State on the
// host that has the checkpoint's dtypes is filled in place, a window of a file at a time by all
// threads. Other state is read a range of elements at a time, converted and handed to the training
// state, which knows where it lives.

#include "strata/checkpoint/load_state.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/converted_moments.h"
#include "checkpoint/state_range.h"
#include "checkpoint/verified_file.h"
#include "strata/base/convert.h"
#include "strata/base/error.h"
#include "strata/checkpoint/checkpoint_layout.h"

namespace strata {

namespace {

/// So many elements are converted at a time: 16 Mi, of which 12 bytes each are read.
constexpr std::int64_t kRange = std::int64_t{1} << 24;

std::byte* data_of(const BlockState& state, StatePart part) {
  return static_cast<std::byte*>((state.*kUpdatedTensors[static_cast<std::size_t>(part)]).data);
}

class Loader {
 public:
  Loader(const Files& files, const std::filesystem::path& checkpoint, const Manifest& manifest,
         TrainingState& state, ThreadPool& pool, WindowBuffers& buffers, WorkProgress* work)
      : files_(files),
        checkpoint_(checkpoint),
        state_(state),
        pool_(pool),
        buffers_(buffers),
        work_(work),
        layout_(make_checkpoint_layout(state.layout(), manifest.types)) {
    if (manifest.types.are_weights_alone()) {
      throw IoError(checkpoint.string() +
                    ": holds weights alone, and a run goes on from a whole state");
    }
    if (manifest.types.moments != state.plan().moments) {
      throw IoError(checkpoint.string() +
                    ": holds the moments of another optimizer; set optimizer.kind as it was");
    }
    for (const ManifestFile& file : manifest.files) files_of_[file.path] = &file;
    for (const BlockId b : layout_.blocks.ids()) {  // before anything is changed
      for (const StateFile* file : layout_.blocks[b].files()) {
        static_cast<void>(entry(*file));
      }
    }
  }

  void load(const std::function<void()>& between) {
    verify_rest();
    if (work_ != nullptr) work_->begin("clearing the state");
    state_.clear(pool_);
    if (work_ != nullptr) work_->begin("reading the checkpoint", {.total = bytes_of_shards()});
    for (const BlockId b : state_.ids()) {
      if (between) between();
      if (state_.plan(b).is_trained()) load(b);
    }
  }

 private:
  [[nodiscard]] const CheckpointTypes& types() const { return layout_.types; }

  /// Returns the bytes of files that hold this rank's state.
  [[nodiscard]] std::uint64_t bytes_of_shards() const {
    std::uint64_t bytes = 0;
    for (const BlockId b : state_.ids()) {
      const BlockState& home = state_.block(b);
      for (const StateFile* file : layout_.blocks[b].files()) {
        for (const FileRun& run : runs_in(*file, home.begin, home.weight.elements())) {
          bytes += end_of(run) - run.offset;
        }
      }
    }
    return bytes;
  }

  /// Returns what the manifest says of a file of the layout.
  [[nodiscard]] const ManifestFile& entry(const StateFile& file) const {
    const auto found = files_of_.find(file.path);
    if (found != files_of_.end() && found->second->bytes == file.bytes) return *found->second;
    throw DamagedFile(checkpoint_.string() + ": " + file.path +
                      (found == files_of_.end() ? " is not in its manifest"
                                                : " has another size than this model's") +
                      "; the checkpoint is of another model");
  }

  /// Reads what holds no state: headers, and the files that go into the next checkpoint as well.
  void verify_rest() const {
    std::map<std::string_view, std::uint64_t> headers;
    for (const BlockFiles& block : layout_.blocks) {
      for (const StateFile* file : block.files()) {
        headers[file->path] = file->header.size();
      }
    }
    std::vector<std::byte> bytes;
    for (const auto& [name, file] : files_of_) {
      const auto header = headers.find(name);
      const std::uint64_t end = header == headers.end() ? file->bytes : header->second;
      const std::filesystem::path path = checkpoint_ / name;
      const std::unique_ptr<FileReader> in = files_.open(path);
      for (const HashedWindow& window : hashed_windows(*file)) {
        if (window.bytes.begin >= end) continue;
        bytes.resize(static_cast<std::size_t>(window.bytes.end - window.bytes.begin));
        read_verified(*in, path, window, bytes);
      }
    }
  }

  void load(BlockId b) {
    const BlockState& home = state_.block(b);
    const Block& block = state_.layout().blocks[b];
    const std::int64_t count =
        std::clamp<std::int64_t>(block.elements - home.begin, 0, home.weight.elements());
    const bool has_low = types().bytes_of(StatePart::kLow) > 0;
    const bool same = home.weight.dtype == types().weight && home.m.dtype == types().moment &&
                      bool{home.low} == has_low;
    if (same && state_.plan(b).weight != Home::kDevice) {
      read(b, home, home.begin, count);
      return;
    }
    const StateRange range(types(), std::min(count, kRange));
    for (std::int64_t done = 0; done < count; done += kRange) {
      const std::int64_t n = std::min(kRange, count - done);
      BlockState raw = range.state();
      raw.begin = home.begin + done;
      // Files of weights do not have the gaps between segments.
      std::memset(raw.weight.data, 0, raw.weight.bytes().bytes);
      read(b, raw, raw.begin, n);
      convert(b, raw, done, n);
    }
  }

  /// Reads elements [begin, begin + count) of a block to `to`, whose tensors begin at to.begin.
  void read(BlockId b, const BlockState& to, std::int64_t begin, std::int64_t count) {
    for (const StateFile* file : layout_.blocks[b].files()) {
      read(*file, to, begin, count);
    }
  }

  /// Returns what a file has of elements [begin, begin + count) of its block.
  [[nodiscard]] std::vector<FileRun> runs_in(const StateFile& file, std::int64_t begin,
                                             std::int64_t count) const {
    std::vector<FileRun> runs;
    for (FileRun run : file.runs) {
      const std::int64_t first = std::max(run.begin, begin / elements_of_entry(run.part));
      const std::int64_t end = std::min(run.begin + run.count, entries_of(run.part, begin + count));
      if (first >= end) continue;
      run.offset += static_cast<std::uint64_t>(first - run.begin) * types().bytes_of(run.part);
      run.begin = first;
      run.count = end - first;
      runs.push_back(run);
    }
    return runs;
  }

  void read(const StateFile& file, const BlockState& to, std::int64_t begin, std::int64_t count) {
    const std::vector<FileRun> wanted = runs_in(file, begin, count);
    std::vector<HashedWindow> windows = hashed_windows(entry(file));
    std::erase_if(windows, [&](const HashedWindow& w) {
      return std::ranges::none_of(wanted, [&](const FileRun& run) {
        return run.offset < w.bytes.end && w.bytes.begin < end_of(run);
      });
    });
    if (windows.empty()) return;
    const std::filesystem::path path = checkpoint_ / file.path;
    const std::unique_ptr<FileReader> in = files_.open(path);
    pool_.parallel_for(
        static_cast<std::int64_t>(windows.size()), 1, [&](std::int64_t first, std::int64_t last) {
          for (auto i = first; i < last; ++i) {
            const HashedWindow& window = windows[static_cast<std::size_t>(i)];
            const WindowBuffers::Lease buffer(buffers_);
            const std::span<std::byte> bytes = buffer.bytes(window.bytes.begin, window.bytes.end);
            read_verified(*in, path, window, bytes);
            for (const FileRun& run : wanted) scatter(run, window.bytes, bytes, to);
          }
        });
  }

  [[nodiscard]] std::uint64_t end_of(const FileRun& run) const {
    return run.offset + static_cast<std::uint64_t>(run.count) * types().bytes_of(run.part);
  }

  /// Copies what a window has of a run to where it belongs.
  void scatter(const FileRun& run, const Window& window, std::span<const std::byte> bytes,
               const BlockState& to) const {
    const std::uint64_t begin = std::max(run.offset, window.begin);
    const std::uint64_t end = std::min(end_of(run), window.end);
    if (begin >= end) return;
    const std::int64_t to_begin = to.begin / elements_of_entry(run.part);
    const auto first = static_cast<std::size_t>(run.begin - to_begin) * types().bytes_of(run.part);
    std::memcpy(data_of(to, run.part) + first + (begin - run.offset),
                bytes.data() + (begin - window.begin), static_cast<std::size_t>(end - begin));
    count_work(work_, end - begin);
  }

  /// Writes elements [done, done + count) of the shard from `raw`, in the state's types.
  void convert(BlockId b, const BlockState& raw, std::int64_t done, std::int64_t count) {
    const BlockState& home = state_.block(b);
    const auto bytes_of = [count](const TensorView& view) {
      if (!view) return std::span<const std::byte>();
      return std::span(static_cast<const std::byte*>(view.data),
                       static_cast<std::size_t>(count) * size_of(view.dtype));
    };
    if (home.weight.dtype == types().weight) {
      state_.write(b, &BlockState::weight, done, bytes_of(raw.weight));
      // Low halves that the checkpoint does not have are 0, as clear() has left them.
      if (home.low && raw.low) state_.write(b, &BlockState::low, done, bytes_of(raw.low));
    } else {
      write_masters(b, raw, done, count);
    }
    if (raw.m.dtype == home.m.dtype) {
      const ByteRange scales =
          home.scale ? slice_of(raw, &BlockState::scale, 0, count).bytes() : ByteRange{};
      write_moments(b, done, bytes_of(raw.m), bytes_of(raw.v), {scales.begin, scales.bytes});
      return;
    }
    const std::optional<ConvertedMoments> moments = converted_moments(raw, count, home.m.dtype);
    if (!moments) {
      throw IoError(checkpoint_.string() + ": block " + state_.layout().blocks[b].name +
                    " has moments that are not finite, which 8 bits cannot hold; set "
                    "optimizer.moment_dtype to \"f32\"");
    }
    write_moments(b, done, moments->m, moments->v, moments->scale);
  }

  /// Writes moments from element `done` of the shard on; `v` is empty if there is one, and `scales`
  /// unless they are codes.
  void write_moments(BlockId b, std::int64_t done, std::span<const std::byte> m,
                     std::span<const std::byte> v, std::span<const std::byte> scales) {
    state_.write(b, &BlockState::m, done, m);
    if (!v.empty()) state_.write(b, &BlockState::v, done, v);
    if (!scales.empty()) state_.write(b, &BlockState::scale, done / kMomentBlock, scales);
  }

  void write_as(BlockId b, TensorView BlockState::*tensor, std::int64_t done,
                std::span<const double> values) {
    const DType dtype = (state_.block(b).*tensor).dtype;
    std::vector<std::byte> bytes(values.size() * size_of(dtype));
    store_as(values, dtype, bytes);
    state_.write(b, tensor, done, bytes);
  }

  void write_masters(BlockId b, const BlockState& raw, std::int64_t done, std::int64_t count) {
    std::vector<double> values = load_as_double(raw.weight.slice_rows(0, count));
    if (raw.low) {
      const Bf16* high = raw.weight.as<Bf16>();
      const std::int16_t* low = raw.low.as<std::int16_t>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<double>(join_f32({high[i].bits, low[i]}));
      }
    }
    if (!state_.block(b).low) return write_as(b, &BlockState::weight, done, values);
    std::vector<Bf16> highs(values.size());
    std::vector<std::int16_t> lows(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const SplitF32 parts = split_f32(static_cast<float>(values[i]));
      highs[i].bits = parts.high;
      lows[i] = parts.low;
    }
    state_.write(b, &BlockState::weight, done, std::as_bytes(std::span(highs)));
    state_.write(b, &BlockState::low, done, std::as_bytes(std::span(lows)));
  }

  const Files& files_;
  const std::filesystem::path& checkpoint_;
  TrainingState& state_;
  ThreadPool& pool_;
  WindowBuffers& buffers_;
  WorkProgress* work_;  ///< may be null
  CheckpointLayout layout_;
  std::map<std::string, const ManifestFile*, std::less<>> files_of_;
};

}  // namespace

void load_state(const Files& files, const std::filesystem::path& checkpoint,
                const Manifest& manifest, TrainingState& state, ThreadPool& pool,
                WindowBuffers& buffers, const std::function<void()>& between, WorkProgress* work) {
  Loader(files, checkpoint, manifest, state, pool, buffers, work).load(between);
}

void verify_checkpoint(const Files& files, const std::filesystem::path& checkpoint,
                       const Manifest& manifest, ThreadPool& pool, WindowBuffers& buffers,
                       WorkProgress* work) {
  for (const ManifestFile& file : manifest.files) {
    const std::filesystem::path path = checkpoint / file.path;
    const std::unique_ptr<FileReader> in = files.open(path);
    const std::vector<HashedWindow> windows = hashed_windows(file);
    pool.parallel_for(
        static_cast<std::int64_t>(windows.size()), 1, [&](std::int64_t first, std::int64_t last) {
          for (auto i = first; i < last; ++i) {
            const HashedWindow& window = windows[static_cast<std::size_t>(i)];
            const WindowBuffers::Lease buffer(buffers);
            read_verified(*in, path, window, buffer.bytes(window.bytes.begin, window.bytes.end));
            count_work(work, window.bytes.end - window.bytes.begin);
          }
        });
  }
}

void verify_checkpoint(const Files& files, const FoundCheckpoint& checkpoint, ThreadPool& pool,
                       WorkProgress* work) {
  const std::size_t bytes = static_cast<std::size_t>(pool.threads()) * kHashWindow + kFileAlignment;
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
  WindowBuffers buffers({memory.get(), bytes}, kHashWindow);
  verify_checkpoint(files, checkpoint.folder, checkpoint.manifest, pool, buffers, work);
}

}  // namespace strata
