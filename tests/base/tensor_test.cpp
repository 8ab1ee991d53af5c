// Tests shapes, strided views and their slices against addresses computed by hand, and that misuse
// is refused; narrow<> is tested along.

#include "strata/base/tensor.h"

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "strata/base/narrow.h"
#include "support/catch.h"

using namespace strata;

TEST_CASE("a shape multiplies its extents") {
  CHECK(Shape{}.elements() == 1);
  CHECK(Shape{5}.elements() == 5);
  CHECK(Shape{2, 3, 4}.elements() == 24);
  CHECK(Shape{2, 3, 4}.row_elements() == 12);
  CHECK(Shape{7}.row_elements() == 1);
  CHECK(Shape{0, 3}.elements() == 0);
  CHECK(Shape{2, 3}.to_string() == "[2, 3]");
  CHECK(Shape{2, 3} == Shape{2, 3});
  CHECK_FALSE(Shape{2, 3} == Shape{2, 3, 1});
}

TEST_CASE("a shape refuses negative extents and a fourth dimension") {
  CHECK_THROWS_AS((Shape{2, -1}), ShapeError);
  CHECK_THROWS_AS((Shape{1, 2, 3, 4}), ShapeError);
}

TEST_CASE("rows of a strided view are found where they lie in the wide matrix") {
  // Columns 2..4 of a 4 x 10 matrix.
  std::vector<float> wide(40);
  for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = static_cast<float>(i);
  const TensorView view(wide.data() + 2, DType::kF32, Shape{4, 3}, 10);
  CHECK_FALSE(view.contiguous());
  const TensorView rows = view.slice_rows(1, 2);
  CHECK(rows.shape == Shape{2, 3});
  CHECK(rows.row_stride == 10);
  CHECK(rows.as<float>()[0] == 12.0f);
  CHECK(rows.as<float>()[rows.row_stride + 2] == 24.0f);
}

TEST_CASE("the bytes of a view reach from its first to its last element") {
  std::vector<Bf16> wide(40);
  const ConstTensorView view(wide.data() + 2, DType::kBF16, Shape{4, 3}, 10);
  CHECK(view.bytes().begin == reinterpret_cast<const std::byte*>(wide.data() + 2));
  CHECK(view.bytes().bytes == (3 * 10 + 3) * sizeof(Bf16));
  CHECK(view.slice_rows(3, 1).bytes().bytes == 3 * sizeof(Bf16));
  CHECK(view.slice_rows(4, 0).bytes().bytes == 0);
  CHECK(ConstTensorView{}.bytes().begin == nullptr);
}

TEST_CASE("a slice outside of the view is refused") {
  std::vector<float> data(6);
  const TensorView view(data.data(), DType::kF32, Shape{2, 3});
  CHECK_THROWS_AS(view.slice_rows(1, 2), ShapeError);
  CHECK_THROWS_AS(view.slice_rows(-1, 1), ShapeError);
  CHECK_THROWS_AS(view.slice_rows(0, -1), ShapeError);
}

TEST_CASE("slicing keeps the dimensions behind the first") {
  std::vector<double> data(24);
  const TensorView cube(data.data(), DType::kF64, Shape{4, 3, 2});
  CHECK(cube.slice_rows(1, 2).shape == Shape{2, 3, 2});
  CHECK(cube.slice_rows(1, 2).as<double>() == data.data() + 6);
  const TensorView line(data.data(), DType::kF64, Shape{24});
  CHECK(line.slice_rows(20, 4).shape == Shape{4});
  CHECK(line.slice_rows(20, 4).as<double>() == data.data() + 20);
}

TEST_CASE("a view gives out pointers of its own element type only") {
  std::vector<float> data(2);
  const TensorView view(data.data(), DType::kF32, Shape{2});
  CHECK(view.as<float>() == data.data());
  CHECK_THROWS_AS(view.as<Bf16>(), ShapeError);
  CHECK_THROWS_WITH(view.as<double>(), ContainsSubstring("f32, not f64"));
}

TEST_CASE("narrow refuses values that the target cannot hold") {
  CHECK(narrow<std::int32_t>(std::int64_t{-5}) == -5);
  CHECK(narrow<std::uint8_t>(255) == 255);
  CHECK_THROWS_AS(narrow<std::uint8_t>(256), std::range_error);
  CHECK_THROWS_AS(narrow<std::size_t>(-1), std::range_error);
  CHECK_THROWS_AS(narrow<std::int64_t>(std::numeric_limits<std::uint64_t>::max()),
                  std::range_error);
}
