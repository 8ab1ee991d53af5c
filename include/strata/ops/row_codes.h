// How rows of numbers become codes of a byte with a scale for each row, on the host: weights that
// nobody trains are rounded so when they are read. DequantizeRows (strata/ops/quantize.h) decodes
// them. Numbers are f64, which holds those of every dtype.
#pragma once

#include <cstdint>
#include <span>

namespace strata {

/// Rounds a row to e4m3 as QuantizeFp8Rows does (strata/ops/fp8.h), writes a code for each number,
/// and returns their scale.
float encode_fp8_row(std::span<const double> row, std::span<std::uint8_t> codes);
/// Rounds a row to int8 as QuantizeRows does (strata/ops/quantize.h), with quotients in f64.
float encode_int8_row(std::span<const double> row, std::span<std::uint8_t> codes);

}  // namespace strata
