// This file decodes weights of 4 bits on the CPU; CpuKernels calls it through operators.h.

#include "kernels/cpu/operators.h"
#include "kernels/cpu/typed.h"

namespace strata::cpu {

void execute(const Context& context, const DequantizeNf4& op) {
  const auto* codes = op.codes.as<std::uint8_t>();
  const auto* scales = op.scales.as<std::uint8_t>();
  const auto* groups = op.groups.as<float>();
  const auto* tables = op.tables.as<float>();
  const float offset = tables[0];
  const float* levels = tables + 1;
  const float* scale_values = levels + kNf4Levels;
  with_compute_type(op.y.dtype, [&]<Compute X>(X) {
    X* y = op.y.as<X>();
    context.pool.parallel_for(
        op.scales.elements(), grain_for(kNf4Block), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t block = begin; block < end; ++block) {
            const float product = scale_values[scales[block]] * groups[block / kNf4Group];
            const float scale = product + offset;
            for (std::int64_t i = block * kNf4Block; i < (block + 1) * kNf4Block; i += 2) {
              const unsigned pair = codes[i / 2];
              y[i] = static_cast<X>(levels[pair >> 4] * scale);
              y[i + 1] = static_cast<X>(levels[pair & 15] * scale);
            }
          }
        });
  });
}

}  // namespace strata::cpu
