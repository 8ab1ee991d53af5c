// Stores f32 values as the tensors of a GGUF file hold them. Arithmetic is in f32, in the order of
// ggml's reference (quantize_row_q8_0_ref), so that both give the same bits.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "strata/base/element.h"
#include "strata/base/error.h"
#include "strata/base/gguf.h"
#include "strata/base/narrow.h"

namespace strata {
namespace {

constexpr std::size_t kQ8BlockBytes = sizeof(std::uint16_t) + kQ8Block;
constexpr float kMostF16 = 65504.0F;

/// Returns the bits of the f16 that is nearest to a value of at least 0 and at most kMostF16, ties
/// to even.
std::uint16_t f16_bits(float value) {
  constexpr float kLeastNormal = 0x1p-14F;
  if (value < kLeastNormal) {  // in steps of 2^-24; the product is exact
    return static_cast<std::uint16_t>(std::nearbyint(value * 0x1p24F));
  }
  constexpr std::uint32_t kDropped = 13;  // bits that f32's mantissa has more
  const auto bits = std::bit_cast<std::uint32_t>(value) - (std::uint32_t{127 - 15} << 23);
  const std::uint32_t odd = bits >> kDropped & 1;
  return static_cast<std::uint16_t>((bits + (std::uint32_t{1} << (kDropped - 1)) - 1 + odd) >>
                                    kDropped);
}

void store_q8_block(std::span<const float> values, std::byte* out) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::abs(value));
  const float scale = most / 127.0F;
  if (!(scale <= kMostF16)) {
    throw NumericalError("a weight of " + std::to_string(most) +
                         " is too large for q8_0, whose scales are f16; write bf16 or f32");
  }
  const float inverse = scale == 0 ? 0.0F : 1.0F / scale;
  const std::uint16_t stored_scale = f16_bits(scale);
  std::memcpy(out, &stored_scale, sizeof(stored_scale));
  out += sizeof(stored_scale);
  for (const float value : values) {
    *out++ = static_cast<std::byte>(static_cast<std::int8_t>(std::round(value * inverse)));
  }
}

}  // namespace

std::uint64_t gguf_bytes(GgufType type, std::int64_t elements) {
  const auto count = narrow<std::uint64_t>(elements);
  switch (type) {
    case GgufType::kF32: return count * sizeof(float);
    case GgufType::kBF16: return count * sizeof(Bf16);
    case GgufType::kQ80: return count / kQ8Block * kQ8BlockBytes;
  }
  throw std::logic_error("the GGUF type is none that is written");
}

void store_gguf(std::span<const float> values, GgufType type, std::span<std::byte> out) {
  if (out.size() != gguf_bytes(type, narrow<std::int64_t>(values.size())) ||
      (type == GgufType::kQ80 && values.size() % kQ8Block != 0)) {
    throw std::logic_error("store_gguf: the memory does not fit the values");
  }
  if (type == GgufType::kF32) {
    std::memcpy(out.data(), values.data(), values.size_bytes());
  } else if (type == GgufType::kBF16) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Bf16 rounded(values[i]);
      std::memcpy(out.data() + i * sizeof(rounded), &rounded, sizeof(rounded));
    }
  } else {
    for (std::size_t block = 0; block * kQ8Block < values.size(); ++block) {
      store_q8_block(values.subspan(block * kQ8Block, kQ8Block),
                     out.data() + block * kQ8BlockBytes);
    }
  }
}

}  // namespace strata
