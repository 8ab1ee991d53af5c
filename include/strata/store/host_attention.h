// Attention on the host, where keys and values live. Queries, keys and values of new tokens go
// there, the host lane adds them to what is kept and attends to it, and what comes of it goes back.
// So each token moves some kilobytes over the link instead of all its keys. All calls come from the
// submitting thread and none of them blocks.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "strata/ops/kernels.h"
#include "strata/store/kv_store.h"

namespace strata {

/// This is the most that a sweep has; the heads are those of the keys and values.
struct HostAttentionShape {
  std::int64_t tokens = 0;              ///< T: of a sweep
  std::int64_t singles = 0;             ///< S: of these past their prompts
  std::int64_t heads = 0;               ///< H: of queries
  std::int64_t qkv_width = 0;           ///< (H + 2 K) * D, of what the host gets of a token
  double scale = 0;                     ///< of scores
  std::vector<std::int64_t> windows{};  ///< [L] of layers, see AttentionForward; empty: none
  double score_cap = 0;                 ///< see AttentionForward
};

/// This is a cell of a sweep, with its tables on the host.
struct HostCell {
  std::size_t number = 0;  ///< in the sweep
  int group = 0;
  std::int64_t begin = 0;           ///< first token
  std::int64_t first_single = 0;    ///< how many singles come before it in the sweep
  ConstTensorView rows;             ///< [N] i32: where keys and values go
  ConstTensorView segments;         ///< [all segments, 5] i32, of the pieces
  std::span<const KvPiece> pieces;  ///< all tokens; singles are one piece
};

class HostAttention {
 public:
  /// This is what it takes.
  struct Memory {
    Memory(const KvShape& kv, const HostAttentionShape& shape, Allocator& memory);

    TensorView kept;      ///< [T, (H + 2 K) * D] X, pinned: of cells that attend on the device
    TensorView sent;      ///< [S, (H + 2 K) * D] X, pinned: of singles
    TensorView o;         ///< [S, H * D] X, pinned
    TensorView lse;       ///< [S * H] A, pinned, scratch
    TensorView o_device;  ///< [S, H * D] X
  };

  /// Takes the memory from `arenas`. Keys and values are those of `kv`, which attends at home;
  /// `kernels` are the device's. All arguments outlive it. Throws OutOfMemory.
  HostAttention(const HostAttentionShape& shape, KvStore& kv, Kernels& kernels,
                Kernels& host_kernels, Arenas& arenas);

  /// Lets `compute` write queries, keys and values of a cell to where those of the last one were.
  void reuse(Stream& compute) { compute.wait(sent_, WaitFor::kReuse); }
  /// Sends qkv [N, (H + 2 K) * D] X of a cell home that attends on the device.
  void keep(int layer, const HostCell& cell, const ConstTensorView& qkv, Stream& compute,
            const Tag& tag);
  /// Sends qkv of the singles of a cell home, and has the host attend.
  void attend(int layer, const HostCell& cell, const ConstTensorView& qkv, Stream& compute,
              const Tag& tag);
  /// Has `compute` bring o [N, H * D] X of the cell that was sent last under this number, when the
  /// host is done with it, and returns where it is on the device. Good until the cell of that
  /// number is sent again.
  [[nodiscard]] ConstTensorView attended(const HostCell& cell, Stream& compute, const Tag& tag);
  /// Returns when the host has read all tables of cells that were sent so far.
  [[nodiscard]] Event read();

 private:
  /// Copies qkv to `home` on the host, which was read before `taken`, and adds keys and values to
  /// those of the group.
  void send(int layer, const HostCell& cell, const ConstTensorView& qkv, const TensorView& home,
            Event taken, Stream& compute, const Tag& tag);
  /// Returns the event of a cell that has just been put on the host lane.
  Event put(int layer, const HostCell& cell);
  [[nodiscard]] TensorView heads(const TensorView& of, std::int64_t begin,
                                 std::int64_t count) const;

  HostAttentionShape shape_;
  KvStore& kv_;
  Kernels& kernels_;
  Kernels& host_kernels_;
  Device& device_;
  Memory memory_;
  Event sent_;  ///< qkv of the last cell has left the device
  // By number of the cell.
  std::vector<Event> kept_;      ///< the host has read qkv
  std::vector<Event> attended_;  ///< the host has read qkv and written o
};

}  // namespace strata
