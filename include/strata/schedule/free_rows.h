// Rows of keys and values that are free: consecutive ones are taken for a sequence, the first that
// are enough, and given back when it ends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

namespace strata {

class FreeRows {
 public:
  explicit FreeRows(std::int64_t rows) { runs_[0] = rows; }

  /// Returns the begin of the first run with so many rows, or nothing.
  [[nodiscard]] std::optional<std::int64_t> find(std::int64_t rows) const {
    const auto run = std::ranges::find_if(runs_, [&](const auto& r) { return r.second >= rows; });
    if (run == runs_.end()) return std::nullopt;
    return run->first;
  }
  /// Takes rows from the begin of a run.
  void take(std::int64_t begin, std::int64_t rows) {
    if (rows == 0) return;
    const std::int64_t count = runs_.at(begin);
    runs_.erase(begin);
    if (count > rows) runs_[begin + rows] = count - rows;
  }
  void give_back(std::int64_t begin, std::int64_t rows) {
    if (rows == 0) return;
    auto run = runs_.emplace(begin, rows).first;
    const auto next = std::next(run);
    if (next != runs_.end() && run->first + run->second == next->first) {
      run->second += next->second;
      runs_.erase(next);
    }
    if (run == runs_.begin()) return;
    const auto before = std::prev(run);
    if (before->first + before->second != run->first) return;
    before->second += run->second;
    runs_.erase(run);
  }

 private:
  std::map<std::int64_t, std::int64_t> runs_;  ///< lengths by their begins
};

}  // namespace strata
