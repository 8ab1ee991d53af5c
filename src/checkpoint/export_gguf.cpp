// Writes the tensors of a GGUF file, each block of the model by one thread, some rows at a time.
// Rows of rotated heads are reordered within their head, so such a piece holds whole heads.

#include "strata/checkpoint/export_gguf.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint_weights.h"
#include "checkpoint/read_block.h"
#include "strata/base/error.h"
#include "strata/base/narrow.h"
#include "strata/model/families.h"

namespace strata {
namespace {

/// Fills `out` with elements of a block from `begin` on. It belongs to one thread, and is called
/// with ascending elements.
using ReadBlock = std::function<void(std::int64_t begin, std::span<float> out)>;

/// The elements of a piece, if a head has not more.
constexpr std::int64_t kPieceElements = std::int64_t{1} << 20;

/// Returns the type of a tensor where matrices are to have `type`.
GgufType type_of(const GgufPlace& place, GgufType type) {
  if (place.shape.size() == 1) return GgufType::kF32;
  const bool cuts_rows = place.shape.back() % kQ8Block != 0;
  return type == GgufType::kQ80 && cuts_rows ? GgufType::kBF16 : type;
}

/// Interleaves the halves of a head: row 2i is row i, and row 2i + 1 is row rows/2 + i.
void interleave(std::span<const float> head, std::int64_t rows, std::span<float> out) {
  const auto half = static_cast<std::size_t>(rows / 2);
  const std::size_t cols = head.size() / (2 * half);
  for (std::size_t i = 0; i < half; ++i) {
    std::ranges::copy(head.subspan(i * cols, cols), out.begin() + narrow<long>(2 * i * cols));
    std::ranges::copy(head.subspan((half + i) * cols, cols),
                      out.begin() + narrow<long>((2 * i + 1) * cols));
  }
}

class GgufWriter {
 public:
  GgufWriter(const GgufExport& what, ThreadPool& pool) : what_(what), pool_(pool) {
    for (const GgufPlace& place : what.gguf.tensors) {
      places_[place.source] = {&place, tensors_.size()};
      tensors_.push_back({place.name, type_of(place, what.type), place.shape});
    }
    for (const GgufVector& factors : what.gguf.rope_factors) {
      tensors_.push_back({factors.name, GgufType::kF32, {std::ssize(factors.values)}});
    }
    header_ = gguf_header(what.keys, tensors_);
  }

  void write(const std::function<ReadBlock(BlockId)>& source) {
    what_.to.reserve(header_.file_bytes);
    progress_.bytes = header_.file_bytes;
    write_bytes(0, std::as_bytes(std::span(header_.bytes)));
    std::size_t tensor = what_.gguf.tensors.size();
    for (const GgufVector& factors : what_.gguf.rope_factors) {
      write_bytes(header_.offsets[tensor++], std::as_bytes(std::span(factors.values)));
    }
    const ModelLayout layout = make_layout(spec_of(what_.model));
    const auto body = [&](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) {
        const BlockId id(narrow<int>(i));
        write_block(layout.blocks[id], source(id));
      }
    };
    pool_.parallel_for(narrow<std::int64_t>(layout.blocks.size()), 1, body);
  }

 private:
  struct Place {
    const GgufPlace* place = nullptr;
    std::size_t tensor = 0;  ///< of tensors_
  };

  void write_block(const Block& block, const ReadBlock& read) {
    for (const Segment& segment : block.segments) {
      std::int64_t begin = segment.offset;
      for (const SourceTensor& source : segment.sources) {
        const Place& place = places_.at(source.name);
        try {
          write_tensor(place, begin, read);
        } catch (const NumericalError& error) {
          throw NumericalError(source.name + ": " + error.what());
        }
        begin += source.rows * segment.cols;
      }
    }
  }

  /// Writes a tensor whose elements are those of its block from `begin` on.
  void write_tensor(const Place& at, std::int64_t begin, const ReadBlock& read) {
    const GgufPlace& place = *at.place;
    const GgufType type = tensors_[at.tensor].type;
    const bool is_matrix = place.shape.size() > 1;
    const std::int64_t cols = is_matrix ? place.shape[1] : 1;
    const std::int64_t group = std::max<std::int64_t>(place.interleaved_rows, 1) * cols;
    // Vectors are one piece: they are as wide as a row.
    const std::int64_t elements = place.shape[0] * cols;
    const std::int64_t longest =
        is_matrix ? std::max<std::int64_t>(kPieceElements / group, 1) * group : elements;
    std::vector<float> values(narrow<std::size_t>(std::min(longest, elements)));
    std::vector<float> ordered(place.interleaved_rows > 0 ? values.size() : 0);
    std::vector<std::byte> bytes(gguf_bytes(type, std::ssize(values)));
    std::uint64_t offset = header_.offsets[at.tensor];
    for (std::int64_t done = 0; done < elements; done += longest) {
      const auto count = narrow<std::size_t>(std::min(longest, elements - done));
      std::span<float> piece = std::span(values).first(count);
      read(begin + done, piece);
      if (place.offset != 0) {
        for (float& value : piece) value += static_cast<float>(place.offset);
      }
      if (place.interleaved_rows > 0) piece = interleave_heads(piece, place, group, ordered);
      const std::span<std::byte> stored =
          std::span(bytes).first(gguf_bytes(type, narrow<std::int64_t>(count)));
      store_gguf(piece, type, stored);
      write_bytes(offset, stored);
      offset += stored.size();
    }
  }

  static std::span<float> interleave_heads(std::span<const float> heads, const GgufPlace& place,
                                           std::int64_t head_elements, std::span<float> out) {
    const auto step = narrow<std::size_t>(head_elements);
    for (std::size_t at = 0; at < heads.size(); at += step) {
      interleave(heads.subspan(at, step), place.interleaved_rows, out.subspan(at, step));
    }
    return out.first(heads.size());
  }

  void write_bytes(std::uint64_t offset, std::span<const std::byte> bytes) {
    what_.to.write(offset, bytes);
    const std::lock_guard lock(progress_mutex_);
    progress_.bytes_done += bytes.size();
    if (what_.progress) what_.progress(progress_);
  }

  const GgufExport& what_;
  ThreadPool& pool_;
  std::map<std::string, Place, std::less<>> places_;
  std::vector<GgufTensor> tensors_;
  GgufHeader header_;
  std::mutex progress_mutex_;
  ModelProgress progress_;  ///< guarded by progress_mutex_ while threads are at work
};

}  // namespace

void export_gguf(const Files& files, const FoundCheckpoint& checkpoint, const GgufExport& what,
                 ThreadPool& pool) {
  const std::size_t memory_bytes =
      static_cast<std::size_t>(pool.threads()) * CheckpointWeights::kWindowsOfThread * kHashWindow +
      kFileAlignment;
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(memory_bytes);
  WindowBuffers buffers({memory.get(), memory_bytes}, kHashWindow);
  const CheckpointWeights weights(files, checkpoint, what.model, buffers);
  if (what.type == GgufType::kF32) weights.require(DType::kF32);
  weights.verify_small_files();
  GgufWriter(what, pool).write([&](BlockId block) -> ReadBlock {
    return [fill = weights.fill(block, DType::kF32)](std::int64_t begin, std::span<float> out) {
      fill(begin, std::as_writable_bytes(out));
    };
  });
}

void export_gguf(const MergedWeights& weights, const GgufExport& what, ThreadPool& pool) {
  const ModelLayout layout = make_layout(spec_of(what.model));
  GgufWriter(what, pool).write([&](BlockId id) -> ReadBlock {
    return [&weights, &block = layout.blocks[id]](std::int64_t begin, std::span<float> out) {
      read_block<float>(weights, block, begin, std::as_writable_bytes(out));
    };
  });
}

}  // namespace strata
