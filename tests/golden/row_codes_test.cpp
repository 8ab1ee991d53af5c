// Tests weights in codes of a byte with a scale for each row: codes and scales against PyTorch, and
// that products in e4m3 find what was decoded as they would find the weights themselves.

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "golden/golden_file.h"
#include "strata/op_checks/fp8_reference.h"
#include "strata/ops/row_codes.h"
#include "support/catch.h"

namespace strata::test {
namespace {

/// A matrix in codes, as they are in memory.
struct Encoded {
  std::vector<std::int32_t> codes;
  std::vector<double> scales;
};

Encoded encoded(const std::vector<double>& weight, std::size_t width,
                decltype(encode_fp8_row) row) {
  Encoded e;
  std::vector<std::uint8_t> codes(width);
  for (std::size_t at = 0; at < weight.size(); at += width) {
    e.scales.push_back(static_cast<double>(row(std::span(weight).subspan(at, width), codes)));
    e.codes.insert(e.codes.end(), codes.begin(), codes.end());
  }
  return e;
}

std::vector<double> decoded_fp8(const Encoded& e, std::size_t width) {
  std::vector<double> values;
  for (std::size_t i = 0; i < e.codes.size(); ++i) {
    E4M3 code;
    code.bits = static_cast<std::uint8_t>(e.codes[i]);
    values.push_back(static_cast<double>(static_cast<float>(code)) * e.scales.at(i / width));
  }
  return values;
}

/// Checks the codes and scales of the golden weight against those of a name.
void check_golden(const std::string& name, decltype(encode_fp8_row) row) {
  const GoldenFile golden(golden_data() / "row_codes.safetensors");
  const auto width = static_cast<std::size_t>(golden.shape("weight")[1]);
  const Encoded e = encoded(golden.values("weight"), width, row);
  CHECK(e.codes == golden.integers(name + "_codes"));
  CHECK(e.scales == golden.values(name + "_scales"));
}

}  // namespace

TEST_CASE("codes in e4m3 and their scales are those of PyTorch") {
  check_golden("fp8", encode_fp8_row);
}

TEST_CASE("codes in int8 and their scales are those of bitsandbytes' formula in f64") {
  check_golden("int8", encode_int8_row);
}

TEST_CASE("a row that is not finite is no number in any code") {
  for (const double wrong :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    const std::vector<double> row{1, wrong, -2};
    std::vector<std::uint8_t> codes(row.size());
    CHECK(std::isnan(encode_fp8_row(row, codes)));
    CHECK(std::isnan(encode_int8_row(row, codes)));
    CHECK(codes == std::vector<std::uint8_t>(row.size()));
  }
}

TEST_CASE("weights decoded from e4m3 are exact, and rounded again they stay as they are") {
  const GoldenFile golden(golden_data() / "row_codes.safetensors");
  const auto check = [](const std::vector<double>& weight, std::int64_t rows) {
    const std::size_t width = weight.size() / static_cast<std::size_t>(rows);
    const Encoded e = encoded(weight, width, encode_fp8_row);
    const std::vector<double> back = decoded_fp8(e, width);
    for (const double x : back) REQUIRE(double{Bf16(static_cast<float>(x))} == x);
    CHECK(quantized(back, rows).values() == back);
  };
  check(golden.values("weight"), golden.shape("weight")[0]);
  for (const std::int64_t width : {1, 45, 300}) {
    check(rows_of_all_kinds(DType::kBF16, 12, width, false), 12);
  }
  // The largest number becomes half of the largest code, so the scale found again is half as large.
  const std::vector<double> row{225, -3, 0.01};
  CHECK(encoded(row, 3, encode_fp8_row).scales.at(0) == 1);
  CHECK(encoded(decoded_fp8(encoded(row, 3, encode_fp8_row), 3), 3, encode_fp8_row).scales.at(0) ==
        0.5);
  check({225, -3, Bf16(0.01F)}, 1);
}

}  // namespace strata::test
