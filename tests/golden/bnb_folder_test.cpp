// Tests matrices that files hold in 4 bits against what bitsandbytes makes of them, bit by bit.
// Training over such files is compared in adapter_test.cpp.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "golden/golden_file.h"
#include "strata/model/safetensors.h"
#include "support/catch.h"

namespace strata::test {
namespace {

/// Reads a tensor of bnb_matrices.safetensors, or of a folder, from an element on.
std::vector<double> read_from(const StoredNf4& matrix, std::int64_t first, std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  matrix.read(first, std::span(values));
  return values;
}

/// Returns a matrix of a file that is in 4 bits.
StoredNf4 matrix_of(const SafetensorsFile& file, const std::string& name) {
  StoredNf4::Parts parts;
  for (const std::string_view part : StoredNf4::kParts) {
    const std::string of_part = name + "." + std::string(part);
    if (file.contains(of_part)) parts.emplace(part, FileTensor{.file = &file, .name = of_part});
  }
  return {FileTensor{.file = &file, .name = name}, parts};
}

}  // namespace

TEST_CASE("matrices in 4 bits have the numbers that bitsandbytes makes of them") {
  const SafetensorsFile file(golden_data() / "bnb_matrices.safetensors");
  const GoldenFile golden(golden_data() / "bnb_matrices.safetensors");
  for (const std::string name : {"groups", "half", "single"}) {
    INFO(name);
    const StoredNf4 matrix = matrix_of(file, name + ".weight");
    const std::vector<double> expected = golden.values(name + ".decoded");
    CHECK(matrix.dtype() == file.info(name + ".decoded").dtype);
    CHECK(matrix.shape() == file.info(name + ".decoded").shape);
    CHECK(read_from(matrix, 0, matrix.elements()) == expected);
    for (const std::int64_t first : {1, 62, 127}) {
      const std::vector<double> slice = read_from(matrix, first, 101);
      CHECK(std::equal(slice.begin(), slice.end(), expected.begin() + first));
    }
    std::vector<double> beyond(2);
    CHECK_THROWS_WITH(matrix.read(matrix.elements() - 1, std::span(beyond)),
                      ContainsSubstring(name + ".weight"));
  }
}

TEST_CASE("a folder in 4 bits has the weights that bitsandbytes makes of it") {
  const SafetensorsDirectory files(golden_data() / "bnb_phi3");
  const GoldenFile golden(golden_data() / "bnb_phi3/expected.safetensors");
  std::size_t matrices = 0;
  for (const std::string& name : golden.tensors()) {
    if (!name.starts_with("decoded/")) continue;
    const std::string tensor = name.substr(name.find('/') + 1);
    INFO(tensor);
    ++matrices;
    REQUIRE(files.in_4_bits(tensor) != nullptr);
    CHECK(files.info(tensor).dtype == StoredType::kBF16);
    std::vector<double> values(static_cast<std::size_t>(files.info(tensor).elements));
    files.read(tensor, 0, std::span(values));
    CHECK(values == golden.values(name));
  }
  CHECK(matrices == 4);
  CHECK(files.in_4_bits("lm_head.weight") == nullptr);
  CHECK(files.tensors().size() == matrices + 5);
}

}  // namespace strata::test
