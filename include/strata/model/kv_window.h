// Which keys and values a layer with a window keeps, and where they lie. The window moves on in
// steps: rows fill up until a step of them can be released, then those that the window still sees
// move to the begin. So kernels find keys in consecutive rows, as in layers that keep all, and
// where a key lies is a function of positions alone, whatever shares a sweep with its sequence.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "strata/ops/attention.h"

namespace strata {

/// What is kept of a sequence in layers with a window.
struct KvWindow {
  /// Where nothing else is said: with whole tiles attention has the bits of a sequence of which all
  /// is kept. Less would copy more often, and cut prompts into smaller pieces; more would keep
  /// more.
  static constexpr std::int64_t kStep = 6 * AttentionForward::kTileKeys;

  std::int64_t window = 0;  ///< W: keys that a token sees, itself included; 0: all are kept
  std::int64_t step = 0;    ///< keys that are released at once

  [[nodiscard]] bool releases() const { return window > 0; }
  /// Returns how many rows a sequence takes at most.
  [[nodiscard]] std::int64_t rows() const { return window + step - 1; }
  /// Returns the first position that is kept while the token at `position` attends; it has row 0.
  [[nodiscard]] std::int64_t first(std::int64_t position) const {
    return std::max<std::int64_t>(0, position + 1 - window) / step * step;
  }
  /// Returns the first position after `position` whose token releases something.
  [[nodiscard]] std::int64_t next_release(std::int64_t position) const {
    return first(position) + rows();
  }
  /// Returns whether the token at `position` does.
  [[nodiscard]] bool releases_at(std::int64_t position) const {
    return position > 0 && first(position) != first(position - 1);
  }
};

/// Rows of a group that move towards its first row.
struct KvMove {
  std::int64_t from = 0;
  std::int64_t to = 0;  ///< below `from`
  std::int64_t count = 0;
};

/// Consecutive tokens of a cell that are added and attend together. A cell is one piece in layers
/// that keep all. Where rows are released in the midst of a prompt it has more, one after the
/// other.
struct KvPiece {
  std::int64_t begin = 0;  ///< first token, in the cell
  std::int64_t tokens = 0;
  std::int64_t first_segment = 0;  ///< in the sweep's table for such layers
  std::int64_t segments = 0;
  std::int64_t singles = 0;       ///< the first tokens that are past their prompts, a segment each
  std::int64_t longest = 0;       ///< the most keys that one of these sees without a window
  std::int64_t single_pairs = 0;  ///< keys that the singles see without one, together; 0: unknown
  std::int64_t prompt_pairs = 0;  ///< keys that the other tokens see without one; 0: unknown
  std::int64_t prompt_rows = 0;   ///< rows of keys and values that these see; 0: unknown
  std::vector<KvMove> moves{};    ///< come before the piece
};

}  // namespace strata
