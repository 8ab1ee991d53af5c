// Checks dropout against its formula, with masks that are drawn here one number at a time.

#include <cmath>
#include <cstdint>

#include "op_checks/texts.h"
#include "strata/base/random.h"
#include "strata/op_checks/checks.h"
#include "strata/op_checks/reference.h"

namespace strata {
namespace {

/// Returns whether element c of the row at this place of the step is kept.
bool is_kept(const DropoutMask& mask, std::int64_t row, std::int64_t c) {
  const std::uint64_t key = random_bits(mask.seed, mask.stream, static_cast<std::uint64_t>(row));
  std::uint64_t x = (key + static_cast<std::uint64_t>(c) * 0x9e3779b9u) & 0xffffffffu;
  x = ((x ^ (x >> 16)) * 0x85ebca6bu) & 0xffffffffu;
  x = ((x ^ (x >> 13)) * 0xc2b2ae35u) & 0xffffffffu;
  const auto r = static_cast<double>((x ^ (x >> 16)) ^ (key >> 32));
  return r >= std::floor(mask.rate * 0x1p32);
}

}  // namespace

Outputs check_dropout(OpRunner& runner, DType dtype, const RowsCase& c, bool adds) {
  runner.reset(text_of(dtype, c) + (adds ? ", added" : ""));
  const Shape shape{c.tokens, c.width};
  const auto x = random_values(1, shape.elements(), dtype);
  const auto added = random_values(2, shape.elements(), dtype);
  for (const double rate : {0.0, 0.3}) {
    const DropoutMask mask{
        .rate = rate, .seed = 12, .stream = 0xfedcba9876543210u, .first = std::int64_t{1} << 33};
    Expected y(shape.elements());
    for (std::int64_t n = 0; n < c.tokens; ++n) {
      for (std::int64_t i = 0; i < c.width; ++i) {
        const std::size_t k = index_of(n, i, c.width);
        const double kept = is_kept(mask, mask.first + n, i) ? x[k] / (1 - rate) : 0;
        y.values[k] = kept + (adds ? added[k] : 0);
        y.error[k] = std::abs(kept) + std::abs(y.values[k]);
      }
    }
    Dropout op{.x = runner.upload(x, dtype, shape, c.width + c.gap), .y = {}, .mask = mask};
    const TensorView rest = runner.upload(added, dtype, shape, c.width + 2 * c.gap);
    if (adds) op.added = rest;
    op.y = runner.output(dtype, shape, c.width + c.gap);
    if (c.in_place) op.y = adds ? rest : runner.upload(x, dtype, shape, c.width + c.gap);
    if (c.in_place && !adds) op.x = op.y;
    runner.run(op);
    runner.require_close("y", op.y, y, accumulator_of(dtype));
  }
  return runner.outputs();
}

}  // namespace strata
