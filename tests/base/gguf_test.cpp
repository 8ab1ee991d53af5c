// Tests the container of GGUF files against bytes written out by hand, and blocks of q8_0 against
// f64 arithmetic and against what the package gguf 0.19.0 makes (gguf.quants.quantize).

#include "strata/base/gguf.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "support/catch.h"

using namespace strata;

namespace {

std::string text(std::initializer_list<int> bytes) {
  std::string result;
  for (const int byte : bytes) result += static_cast<char>(byte);
  return result;
}

std::vector<std::uint8_t> stored(const std::vector<float>& values, GgufType type) {
  std::vector<std::uint8_t> bytes(gguf_bytes(type, static_cast<std::int64_t>(values.size())));
  store_gguf(values, type, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

/// Returns the value of f16 bits of a positive number.
double value_of_f16(unsigned bits) {
  const unsigned exponent = bits >> 10;
  const double mantissa = bits & 0x3ff;
  if (exponent == 0) return mantissa * 0x1p-24;
  return (1.0 + mantissa / 1024.0) * std::exp2(static_cast<int>(exponent) - 15);
}

}  // namespace

TEST_CASE("a GGUF header is written as the format says") {
  GgufKeys keys;
  keys.add_count("n", 258);
  keys.add_flag("yes", true);
  keys.add_text("t", "ab");
  keys.add_number("x", 1.0);
  keys.add_texts("l", std::vector<std::string>{"c", ""});
  keys.add_integers("i", std::vector<std::int32_t>{-1});
  const std::vector<GgufTensor> tensors{{"w", GgufType::kBF16, {3, 5}}, {"v", GgufType::kF32, {2}}};
  const GgufHeader header = gguf_header(keys, tensors);

  const auto length = [](int size) { return text({size, 0, 0, 0, 0, 0, 0, 0}); };
  std::string expected = "GGUF" + text({3, 0, 0, 0}) + length(2) + length(6);
  expected += length(1) + "n" + text({4, 0, 0, 0}) + text({2, 1, 0, 0});
  expected += length(3) + "yes" + text({7, 0, 0, 0}) + text({1});
  expected += length(1) + "t" + text({8, 0, 0, 0}) + length(2) + "ab";
  expected += length(1) + "x" + text({6, 0, 0, 0}) + text({0, 0, 0x80, 0x3f});
  expected += length(1) + "l" + text({9, 0, 0, 0}) + text({8, 0, 0, 0}) + length(2) + length(1) +
              "c" + length(0);
  expected += length(1) + "i" + text({9, 0, 0, 0}) + text({5, 0, 0, 0}) + length(1) +
              text({255, 255, 255, 255});
  // The fastest dimension comes first; 3 x 5 bf16 take 30 bytes, and the next tensor begins at 32.
  expected += length(1) + "w" + text({2, 0, 0, 0}) + length(5) + length(3) + text({30, 0, 0, 0}) +
              length(0);
  expected += length(1) + "v" + text({1, 0, 0, 0}) + length(2) + text({0, 0, 0, 0}) + length(32);
  const std::size_t data = (expected.size() + 31) / 32 * 32;
  expected.resize(data, '\0');
  CHECK(header.bytes == expected);
  CHECK(header.offsets == std::vector<std::uint64_t>{data, data + 32});
  CHECK(header.file_bytes == data + 64);
}

TEST_CASE("blocks of q8_0 are those of ggml's reference") {
  std::vector<float> values;
  for (int i = 0; i < 32; ++i) values.push_back(static_cast<float>(i - 16) * 0.37F);
  const std::vector<std::uint8_t> known{0xf7, 0x29, 0x81, 0x89, 0x91, 0x99, 0xa1, 0xa9, 0xb1,
                                        0xb9, 0xc1, 0xc8, 0xd0, 0xd8, 0xe0, 0xe8, 0xf0, 0xf8,
                                        0x00, 0x08, 0x10, 0x18, 0x20, 0x28, 0x30, 0x38, 0x3f,
                                        0x47, 0x4f, 0x57, 0x5f, 0x67, 0x6f, 0x77};
  CHECK(stored(values, GgufType::kQ80) == known);
  CHECK(stored(std::vector<float>(32), GgufType::kQ80) == std::vector<std::uint8_t>(34));
}

TEST_CASE("a block of q8_0 is within half a step of its values") {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const float size : {1e-8F, 1e-5F, 1.0F, 1000.0F}) {
    std::vector<float> values(32);
    for (float& value : values) value = size * normal(random);
    const std::vector<std::uint8_t> bytes = stored(values, GgufType::kQ80);
    double most = 0;
    for (const float value : values) most = std::max(most, std::abs(static_cast<double>(value)));
    const double scale = value_of_f16(bytes[0] | static_cast<unsigned>(bytes[1]) << 8);
    // An f16 has 11 bits, and steps of 2^-24 where it is small.
    CHECK(std::abs(scale - most / 127) <= std::max(most / 127 * 0x1p-11, 0x1p-25) * 1.001);
    for (std::size_t i = 0; i < 32; ++i) {
      const auto level = static_cast<std::int8_t>(bytes[2 + i]);
      CHECK(std::abs(level * most / 127 - values[i]) <= most / 127 * 0.5001);
    }
  }
}

TEST_CASE("a weight too large for q8_0 is refused") {
  std::vector<float> values(32);
  values[3] = 65504.0F * 127.0F * 1.01F;
  CHECK_THROWS_AS(stored(values, GgufType::kQ80), NumericalError);
}

TEST_CASE("bf16 of a GGUF file is rounded to nearest, ties to even") {
  const std::vector<float> values{1.0F, 1.0F + 0x1p-8F, 1.0F + 3 * 0x1p-8F, -2.0F};
  CHECK(stored(values, GgufType::kBF16) ==
        std::vector<std::uint8_t>{0x80, 0x3f, 0x80, 0x3f, 0x82, 0x3f, 0x00, 0xc0});
}
