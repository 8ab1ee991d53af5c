// An access plan is the order in which a pass asks a store for things, and says how far the pass
// has come, and how far ahead everything is there. Weight store and spill rings make one at the
// start of each pass, and load ahead and give up slots by it. It holds numbers alone and is used by
// the submitting thread.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace strata {

/// Lists keys in the order in which a pass will ask for them, which is known before it begins. What
/// is needed last goes first (Belady's rule). Every question takes constant time.
class AccessPlan {
 public:
  /// next_use() returns this for a key that is not asked for again.
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  AccessPlan() = default;
  /// Plans one access for each entry of `keys`, in this order; a key may occur often. Keys are
  /// small: the plan has a place for each number up to the largest.
  explicit AccessPlan(std::vector<std::int64_t> keys);

  /// Returns the number of accesses of the pass.
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(keys_.size()); }
  /// Returns the number of accesses that are done, which is the position of the current one.
  [[nodiscard]] std::int64_t position() const { return position_; }
  /// Returns the key that is asked for at `position`, which must be in [0, size()).
  [[nodiscard]] std::int64_t key(std::int64_t position) const {
    return keys_[static_cast<std::size_t>(position)];
  }
  /// Returns the position of the first access to `key` that is not done yet, the current one
  /// included, or kNever.
  [[nodiscard]] std::int64_t next_use(std::int64_t key) const;
  /// Says that the current access is done. Throws std::logic_error if it is not to `key`: the
  /// caller does not follow its plan.
  void advance(std::int64_t key);

  /// Returns the first position, from the current one on, that nobody said is there.
  [[nodiscard]] std::int64_t first_absent() const { return std::max(absent_, position_); }
  /// Says that what first_absent() asks for is there, until it is lost.
  void is_there() { absent_ = first_absent() + 1; }
  /// Says that what a key stands for is gone.
  void lost(std::int64_t key) { absent_ = std::min(first_absent(), next_use(key)); }

 private:
  std::vector<std::int64_t> keys_;
  std::vector<std::int64_t> later_;  ///< by position: that of the next access to the same key
  std::vector<std::int64_t> next_;   ///< by key: next_use()
  std::int64_t position_ = 0;
  std::int64_t absent_ = 0;
};

}  // namespace strata
