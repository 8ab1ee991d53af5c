// The order in which a pass asks a store for things, and how far the pass has come. Weight store
// and spill rings make one at the start of each pass, and load ahead and give up slots by it. It
// holds numbers alone and is used by the submitting thread.

#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace strata {

/// A list of keys in the order in which a pass will ask for them, known before it begins. What is
/// needed last goes first (Belady's rule).
class AccessPlan {
 public:
  /// next_use() of a key that is not asked for again.
  static constexpr std::int64_t kNever = INT64_MAX;

  AccessPlan() = default;
  /// Plans one access for each entry of `keys`, in this order; a key may occur often.
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
  /// Starts again from the first access.
  void rewind() { position_ = 0; }

 private:
  std::vector<std::int64_t> keys_;
  std::map<std::int64_t, std::vector<std::int64_t>> positions_;  ///< ascending, by key
  std::int64_t position_ = 0;
};

}  // namespace strata
