// Takes the memory of codes for the widest linear of any kind of layer.

#include "strata/model/fp8_scratch.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace strata {

namespace {

/// The widest linears whose products multiply codes.
struct Widest {
  std::int64_t in = 0;
  std::int64_t out = 0;

  void count(const Linear& linear) {
    in = std::max(in, linear.in);
    out = std::max(out, linear.out);
  }
};

}  // namespace

Fp8Codes Fp8Codes::take(Allocator& memory, std::string_view name, std::int64_t rows,
                        std::int64_t width) {
  const std::string codes(name);
  return {.q = memory.tensor(Space::kDevice, codes, DType::kE4M3, {rows, width}),
          .scale = memory.tensor(Space::kDevice, codes + "_scale", DType::kF32, {rows})};
}

Fp8Codes Fp8Codes::shaped(std::int64_t rows, std::int64_t width) const {
  if (!q) return {};
  return {.q = TensorView(q.data, q.dtype, {rows, width}),
          .scale = TensorView(scale.data, scale.dtype, Shape{rows})};
}

Fp8Scratch::Fp8Scratch(const ModelSpec& spec, std::int64_t cell_tokens, Allocator& memory) {
  Widest some;                         // of those with any
  Widest all;                          // of those whose gradients of weights are made of codes, too
  std::array<bool, kLinears> taken{};  // a plan gives addresses to none
  for (const LayerSpec& kind : spec.kinds) {
    for (const Linear& linear : kind.linears) {
      if (linear.products == Products::kPlain) continue;
      some.count(linear);
      if (linear.products == Products::kFp8All) all.count(linear);
      const auto id = static_cast<std::size_t>(linear.id);
      if (std::exchange(taken[id], true)) continue;
      weights[id] = Fp8Codes::take(memory, "scratch.fp8_weights", linear.out, linear.in);
      transposed[id] = Fp8Codes::take(memory, "scratch.fp8_transposed", linear.in, linear.out);
    }
  }
  if (some.in == 0) return;
  rows = Fp8Codes::take(memory, "scratch.fp8_rows", cell_tokens, std::max(some.in, some.out));
  if (all.in == 0) return;
  x_columns = Fp8Codes::take(memory, "scratch.fp8_x_columns", all.in, cell_tokens);
  dy_columns = Fp8Codes::take(memory, "scratch.fp8_dy_columns", all.out, cell_tokens);
}

RoundedOperands::RoundedOperands(const ModelSpec& spec, std::int64_t tokens, DType dtype,
                                 Allocator& memory) {
  Widest widest;
  for (const LayerSpec& kind : spec.kinds) {
    for (const Linear& linear : kind.linears) {
      if (linear.products != Products::kPlain) widest.count(linear);
    }
  }
  if (widest.in == 0) return;
  codes = Fp8Codes::take(memory, "scratch.fp8_codes", std::max(tokens, widest.out), widest.in);
  x = memory.tensor(Space::kDevice, "scratch.rounded_x", dtype, {tokens, widest.in});
  w = memory.tensor(Space::kDevice, "scratch.rounded_w", dtype, {widest.out, widest.in});
}

}  // namespace strata
