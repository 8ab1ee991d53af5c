#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace strata {

/// The order in which a pass will ask for things, known before it begins. Stores prefetch and evict
/// by it: what is needed last goes first (Belady's rule).
class AccessPlan {
 public:
  static constexpr std::int64_t kNever = INT64_MAX;

  AccessPlan() = default;
  explicit AccessPlan(std::vector<std::int64_t> keys);

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(keys_.size()); }
  [[nodiscard]] std::int64_t position() const { return position_; }
  [[nodiscard]] std::int64_t key(std::int64_t position) const {
    return keys_[static_cast<std::size_t>(position)];
  }
  /// Position of the next access to `key` at or behind the current one, or kNever.
  [[nodiscard]] std::int64_t next_use(std::int64_t key) const;
  /// The current access, which must be to `key` (std::logic_error: the caller left the plan), is
  /// done.
  void advance(std::int64_t key);
  /// Starts again from the first access.
  void rewind() { position_ = 0; }

 private:
  std::vector<std::int64_t> keys_;
  std::map<std::int64_t, std::vector<std::int64_t>> positions_;  ///< ascending, by key
  std::int64_t position_ = 0;
};

}  // namespace strata
