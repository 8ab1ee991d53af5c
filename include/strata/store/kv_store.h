// The key-value store keeps keys and values of sequences that are being continued, layer by layer.
// Sequences are in groups; a sweep acquires one layer of one group at a time, adds to it, and hands
// it back. What does not stay on the device has a home in pinned memory, from where the store
// fetches it ahead and where it sends what was added. All calls come from the submitting thread and
// none of them blocks.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "strata/base/kv_dtype.h"
#include "strata/base/spread.h"
#include "strata/device/slot_ring.h"
#include "strata/model/kv_views.h"
#include "strata/model/kv_window.h"
#include "strata/store/access_plan.h"

namespace strata {

/// This is the shape of what is kept, and where.
struct KvShape {
  int layers = 1;
  int groups = 1;
  std::int64_t rows = 0;          ///< R: positions of all sequences of a group together
  std::int64_t window_rows = 0;   ///< R in layers that keep a window
  KvWindow window{};              ///< what these keep
  std::vector<bool> windowed{};   ///< [layers], which these are; empty: all layers keep all
  std::int64_t heads = 0;         ///< K
  std::int64_t head_size = 0;     ///< D
  DType dtype = DType::kF32;      ///< X: of tokens
  KvDType kept = KvDType::kAuto;  ///< as X or as int8
  /// Slots on the device for a layer of a group each, whose homes are pinned; 0: everything stays
  /// on the device.
  int slots = 0;
  /// With slots: in so many of the layers, spread evenly, tokens past their prompts attend at home,
  /// on the host: in the first layer, so that keys of others can come meanwhile. Slots are then for
  /// the other layers and for tokens of prompts, and what is added is sent home by HostAttention.
  int attended_layers = 0;

  [[nodiscard]] bool keeps_window(int layer) const {
    return !windowed.empty() && windowed.at(static_cast<std::size_t>(layer));
  }
  [[nodiscard]] std::int64_t rows_of(int layer) const {
    return keeps_window(layer) ? window_rows : rows;
  }
  [[nodiscard]] bool attended_at_home() const { return attended_layers > 0; }
  [[nodiscard]] bool attended_at_home(int layer) const {
    return is_among(layers - 1 - layer, attended_layers, layers);
  }
  /// Returns in how many layers they attend on the device where others attend at home.
  [[nodiscard]] int fetched_layers() const {
    return attended_at_home() ? layers - attended_layers : 0;
  }

  /// Returns the bytes of one position: a key and a value, and scales if there are any.
  [[nodiscard]] std::size_t row_bytes() const {
    const auto elements = 2 * static_cast<std::size_t>(heads * head_size);
    if (kept == KvDType::kAuto) return elements * size_of(dtype);
    constexpr std::size_t kAligned = 16;  // bytes that kernels move at once
    const std::size_t bytes = elements + 2 * static_cast<std::size_t>(heads) * sizeof(float);
    return (bytes + kAligned - 1) / kAligned * kAligned;
  }
  /// Returns the bytes of one layer of a group.
  [[nodiscard]] std::size_t layer_bytes(int layer) const {
    return static_cast<std::size_t>(rows_of(layer)) * row_bytes();
  }
  /// Returns the most rows of a layer of a group.
  [[nodiscard]] std::int64_t most_rows() const;
  /// Returns the bytes of all layers of all groups.
  [[nodiscard]] std::size_t bytes() const;
};

/// Consecutive rows of a group.
struct KvRows {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

/// Rows of a layer that a sweep reads and writes on the device.
struct KvTraffic {
  std::vector<KvRows> kept;   ///< rows of earlier sweeps that are read
  std::vector<KvRows> added;  ///< rows that this sweep writes, those that it moves included
  /// Rows of earlier sweeps that are read only in layers that do not attend at home.
  std::vector<KvRows> kept_elsewhere;
};

/// What a sweep does with a group: the same in every layer, but for windows and who attends.
struct KvVisit {
  int group = 0;
  KvTraffic whole;       ///< of layers that keep all
  KvTraffic windowed{};  ///< of layers that keep a window, if there are any
};

/// The lease is the right to read and add to one layer of a group on the compute lane.
struct KvLease {
  Lease lease;  ///< of a slot; empty where everything stays on the device
  KvViews views;
  int layer = 0;
  std::int64_t thing = 0;  ///< which layer of which group
  std::size_t visit = 0;   ///< of the sweep
};

class KvStore {
 public:
  /// Rows have the key of all heads and then the value, and then the scales of keys and of values
  /// if they are int8, so that all of it travels together.
  struct Memory {
    Memory(const KvShape& shape, Allocator& memory);

    SlotRing slots;                 ///< on the device
    std::vector<std::byte*> homes;  ///< for each layer of each group: on the device, or pinned
  };

  /// Takes the memory from `arenas`, which outlive the store. Throws OutOfMemory.
  KvStore(const KvShape& shape, Arenas& arenas);

  /// Takes the visits of a sweep, which makes those that add something in each layer, in this
  /// order.
  void begin_sweep(std::vector<KvVisit> visits);
  /// Returns the keys and values of the visit that is next, fetched if they are not on the device.
  /// Throws std::logic_error if it is another one's turn, or no slot is free.
  [[nodiscard]] KvLease acquire(int layer, std::size_t visit, Stream& compute, const Tag& tag);
  /// Says that the work that adds to it is submitted; what was added goes home.
  void keep(KvLease lease, Stream& compute, const Tag& tag);
  /// Starts to fetch what is needed next, as far as slots are free.
  void prefetch(const Tag& tag);

  /// Returns where a layer of a group lives.
  [[nodiscard]] KvViews home(int layer, int group) const {
    return views(memory_.homes[static_cast<std::size_t>(thing(layer, group))], layer);
  }
  /// Returns when the last fetch from there has ended.
  [[nodiscard]] Event fetched(int layer, int group) const {
    return fetched_[static_cast<std::size_t>(thing(layer, group))];
  }
  /// Says when what somebody else adds there is there.
  void added(int layer, int group, Event event) {
    sent_[static_cast<std::size_t>(thing(layer, group))] = event;
  }

  [[nodiscard]] const KvShape& shape() const { return shape_; }
  /// Returns the bytes that were fetched, and those that went home, so far.
  [[nodiscard]] std::size_t fetched_bytes() const { return fetched_bytes_; }
  [[nodiscard]] std::size_t sent_bytes() const { return sent_bytes_; }

 private:
  [[nodiscard]] bool at_home() const { return shape_.slots == 0; }
  [[nodiscard]] std::int64_t thing(int layer, int group) const {
    return std::int64_t{layer} * shape_.groups + group;
  }
  [[nodiscard]] KvViews views(std::byte* data, int layer) const;
  /// Returns what a visit reads and writes in a layer.
  [[nodiscard]] const KvTraffic& traffic(const KvVisit& visit, int layer) const {
    return shape_.keeps_window(layer) ? visit.windowed : visit.whole;
  }
  /// Copies rows from one place of a layer to another.
  std::size_t copy_rows(Stream& stream, std::byte* to, const std::byte* from,
                        const std::vector<KvRows>& rows, const Tag& tag) const;
  /// Fills a slot for the access at position `needed_at`. Returns false if every slot holds
  /// something that is leased or needed earlier.
  bool load(std::int64_t needed_at, const Tag& tag);
  /// Returns whether a visit reads or adds anything on the device in a layer.
  [[nodiscard]] bool needs_slot(const KvVisit& visit, int layer) const;
  /// Returns the rows of earlier sweeps that a visit reads in a layer.
  [[nodiscard]] std::vector<KvRows> read_rows(const KvVisit& visit, int layer) const;
  /// Notes what the sweep that has ended left in the slots that it visited.
  void note_left_rows();
  /// Returns whether a slot has all rows that the sweep reads of what it holds.
  [[nodiscard]] bool has_all(std::int64_t held) const;

  KvShape shape_;
  Device& device_;
  Memory memory_;
  std::vector<KvVisit> visits_;
  std::vector<std::size_t> turns_;  ///< the visit of each access that needs a slot
  std::vector<Event> sent_;         ///< per thing: when its home was written
  std::vector<Event> fetched_;      ///< per thing: when its home was read
  /// Per thing: the rows that its last visit has left in its slot, apart and in order.
  std::vector<std::vector<KvRows>> left_;
  AccessPlan plan_;
  std::size_t fetched_bytes_ = 0;
  std::size_t sent_bytes_ = 0;
};

}  // namespace strata
