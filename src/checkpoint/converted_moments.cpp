// Converts moments through f64, which holds each of them exactly.

#include "checkpoint/converted_moments.h"

#include <span>

#include "strata/base/convert.h"
#include "strata/ops/moment_codes.h"

namespace strata {

namespace {

std::vector<double> values_of(const BlockState& from, Moment moment, std::int64_t count) {
  const TensorView all = moment == Moment::kFirst ? from.m : from.v;
  const TensorView tensor = all.slice_rows(0, count);
  if (tensor.dtype != kMomentCode) return load_as_double(tensor);
  std::vector<double> values(static_cast<std::size_t>(count));
  const auto scales = static_cast<std::size_t>(from.scale.elements());
  decode_moments(moment, std::span(tensor.as<std::uint8_t>(), values.size()),
                 std::span(from.scale.as<std::uint8_t>(), scales), values);
  return values;
}

}  // namespace

std::optional<ConvertedMoments> converted_moments(const BlockState& from, std::int64_t count,
                                                  DType to) {
  ConvertedMoments result;
  const bool coded = to == kMomentCode;
  const std::int64_t blocks = coded ? (count + kMomentBlock - 1) / kMomentBlock : 0;
  std::vector<std::uint8_t> scales(static_cast<std::size_t>(blocks * kMomentScales));
  bool finite = true;
  for (const Moment moment : {Moment::kFirst, Moment::kSecond}) {
    if (moment == Moment::kSecond && !from.v) continue;
    const std::vector<double> values = values_of(from, moment, count);
    std::vector<std::byte>& bytes = moment == Moment::kFirst ? result.m : result.v;
    bytes.resize(values.size() * size_of(to));
    if (coded) {
      std::vector<std::uint8_t> codes(values.size());
      finite = encode_moments(moment, values, codes, scales) && finite;
      const auto made = std::as_bytes(std::span(codes));
      bytes.assign(made.begin(), made.end());
    } else {
      store_as(values, to, bytes);
    }
  }
  if (!finite) return std::nullopt;
  const auto made = std::as_bytes(std::span(scales));
  result.scale.assign(made.begin(), made.end());
  return result;
}

}  // namespace strata
