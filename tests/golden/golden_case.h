// One case of an operator's golden file, run on one backend and compared with PyTorch's results.
// The tolerance comes from the errors that PyTorch itself makes in the same dtype.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "golden/golden_file.h"
#include "strata/op_checks/op_runner.h"
#include "support/catch.h"

namespace strata::test {

inline constexpr double kF64Tolerance = 1e-9;

/// One case of a golden file on one backend in compute dtype X: uploads what the operator reads and
/// compares what it writes, by the names in the file.
class GoldenCase {
 public:
  GoldenCase(OpRunner& runner, DType x, const std::string& file, std::string name)
      : runner_(runner),
        x_(x),
        file_(golden_data() / ("ops_" + file + ".safetensors")),
        name_(std::move(name)) {
    runner_.reset();
  }

  [[nodiscard]] bool has(const std::string& tensor) const { return file_.contains(key(tensor)); }
  [[nodiscard]] double scalar(const std::string& tensor) const { return file_.scalar(key(tensor)); }
  [[nodiscard]] std::vector<double> values(const std::string& tensor) const {
    return file_.values(key(tensor));
  }
  [[nodiscard]] Shape shape(const std::string& tensor) const { return file_.shape(key(tensor)); }
  [[nodiscard]] DType x() const { return x_; }
  [[nodiscard]] DType a() const { return accumulator_of(x_); }
  [[nodiscard]] OpRunner& runner() const { return runner_; }

  [[nodiscard]] TensorView input(const std::string& tensor, DType dtype) const {
    return runner_.upload(values(tensor), dtype, shape(tensor));
  }
  [[nodiscard]] TensorView in_x(const std::string& tensor) const { return input(tensor, x_); }
  [[nodiscard]] TensorView in_a(const std::string& tensor) const { return input(tensor, a()); }
  [[nodiscard]] TensorView in_i32(const std::string& tensor) const {
    return input(tensor, DType::kI32);
  }
  [[nodiscard]] TensorView out(const std::string& tensor, DType dtype) {
    return remember(tensor, runner_.output(dtype, shape(tensor)));
  }
  [[nodiscard]] TensorView out_x(const std::string& tensor) { return out(tensor, x_); }
  [[nodiscard]] TensorView out_a(const std::string& tensor) { return out(tensor, a()); }
  /// An output that is added to: begins as the file's "<tensor>_before".
  [[nodiscard]] TensorView added_a(const std::string& tensor) {
    return remember(tensor, in_a(tensor + "_before"));
  }
  /// An output that begins as another tensor of the file.
  [[nodiscard]] TensorView in_place_x(const std::string& from, const std::string& tensor) {
    return remember(tensor, in_x(from));
  }

  /// Requires that every output is as PyTorch says.
  void check_outputs() {
    for (const auto& [tensor, view] : outputs_) {
      check(tensor, runner_.download(view));
    }
    outputs_.clear();
  }
  void check(const std::string& tensor, const std::vector<double>& got) const {
    INFO(name_ << "/" << tensor << " in " << name_of(x_));
    CHECK(distance(got, values(tensor)) <= tolerance(tensor));
  }

 private:
  [[nodiscard]] std::string key(const std::string& tensor) const { return name_ + "/" + tensor; }
  TensorView remember(const std::string& tensor, TensorView view) {
    outputs_.emplace_back(tensor, view);
    return view;
  }
  [[nodiscard]] double tolerance(const std::string& tensor) const {
    if (x_ == DType::kF64) return kF64Tolerance;
    const std::string error = x_ == DType::kF32 ? ".f32_error" : ".bf16_error";
    return 1.5 * scalar(tensor + error) + 0x1p-24;
  }

  OpRunner& runner_;
  DType x_;
  GoldenFile file_;
  std::string name_;
  std::vector<std::pair<std::string, TensorView>> outputs_;
};

}  // namespace strata::test
