// Where codes in e4m3 are that products of layers multiply, on the device. Weights are rounded once
// a visit of a layer; all else is rounded right before the product that reads it, so linears share
// that memory.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "strata/base/tensor.h"
#include "strata/device/allocator.h"
#include "strata/model/spec.h"

namespace strata {

/// Codes in e4m3 with the scales of their rows, both contiguous.
struct Fp8Codes {
  TensorView q;      ///< [rows, width] e4m3, or absent
  TensorView scale;  ///< [rows] f32, likewise

  /// Takes memory for so many.
  static Fp8Codes take(Allocator& memory, std::string_view name, std::int64_t rows,
                       std::int64_t width);
  /// Returns what begins where these do and has another shape; absent if they are.
  [[nodiscard]] Fp8Codes shaped(std::int64_t rows, std::int64_t width) const;
};

/// Absent is what no kind of layer needs: all of it where no product multiplies codes.
struct Fp8Scratch {
  Fp8Scratch() = default;
  Fp8Scratch(const ModelSpec& spec, std::int64_t cell_tokens, Allocator& memory);

  std::array<Fp8Codes, kLinears> weights;     ///< [out, in] each, by LinearId
  std::array<Fp8Codes, kLinears> transposed;  ///< [in, out] each: weights, for input gradients
  Fp8Codes rows;                              ///< [N, widest]: x of a forward, or dy
  Fp8Codes x_columns;                         ///< [widest in, N]: x, for gradients of weights
  Fp8Codes dy_columns;                        ///< [widest out, N]: dy, for the same
};

/// Where forward alone rounds what products multiply, to codes and back, so that products of
/// numbers, which give a row the same bits in any batch, give those of codes. Absent where no
/// product of the spec multiplies codes.
struct RoundedOperands {
  RoundedOperands() = default;
  /// Takes memory for x of so many tokens, of dtype X.
  RoundedOperands(const ModelSpec& spec, std::int64_t tokens, DType dtype, Allocator& memory);

  Fp8Codes codes;  ///< [most of N and widest out, widest in]: of x, and then of W
  TensorView x;    ///< [N, widest in] X
  TensorView w;    ///< [widest out, widest in] X
};

}  // namespace strata
