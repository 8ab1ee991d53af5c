// One operator with one set of small tensors, built twice from the same numbers: on the machine
// that is tested, in the dtype that is tested, and on the cpu backend in f64. The self-test of the
// operators runs both and compares what they wrote. Nothing here knows any operator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "strata/device/arena.h"
#include "strata/ops/backend.h"

namespace strata {

/// A backend with memory for the tensors of one trial at a time.
class TrialMachine {
 public:
  static constexpr std::size_t kBytes = std::size_t{8} << 20;

  explicit TrialMachine(Backend backend);

  [[nodiscard]] std::byte* base() const { return device_; }
  /// Copies the bytes to the device, runs the operator on the compute lane and returns what the
  /// bytes are then. Blocks. Throws what the operator throws.
  template <Op O>
  [[nodiscard]] std::vector<std::byte> run(const std::vector<std::byte>& image, const O& op) {
    upload(image);
    backend_.kernels->run(backend_.device->stream(Lane::kCompute), op, {.phase = "self-test"});
    return download(image.size());
  }

 private:
  void upload(const std::vector<std::byte>& image);
  [[nodiscard]] std::vector<std::byte> download(std::size_t bytes);

  Backend backend_;
  Arena device_arena_;
  Arena staging_arena_;
  std::byte* device_;
  std::byte* staging_;
};

/// How far an output may be from the reference. Everything counts in roundings to nearest, and
/// adds up: `last` of the output's own dtype, relative to the element, and the others relative to
/// the largest element of the output. {.last = 0} asks for equal values.
struct Allowed {
  double last = 1;          ///< of the result
  double accumulator = 0;   ///< of the accumulator (f32), on the way
  double intermediate = 0;  ///< of the compute dtype, where the operator may round on the way
  double steps = 0;         ///< that an integer may be off, where the reference may round elsewhere
};

/// The shapes of a trial, small and awkward; letters as in strata/ops/embedding.h.
struct TrialShape {
  std::int64_t tokens = 1;
  std::int64_t width = 1;
  std::int64_t vocabulary = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 2;
  std::int64_t gap = 0;  ///< elements between rows
  int flavour = 0;       ///< counts the trials of an operator: layouts, with and without options
};

/// The tensors of a trial. Numbers are drawn by stream, so both machines get the same ones, and
/// rounded to the dtype that is tested, so both hold them exactly.
class TrialTensors {
 public:
  /// `tested` is the compute dtype of the trial, `held` the one in which this machine computes.
  TrialTensors(const std::byte* base, DType tested, DType held)
      : base_(base), tested_(tested), held_(held) {}

  [[nodiscard]] DType tested() const { return tested_; }
  [[nodiscard]] DType compute() const { return held_; }
  [[nodiscard]] DType accumulator() const { return accumulator_of(held_); }
  /// Returns whether this machine computes in the dtype that is tested: it is no reference.
  [[nodiscard]] bool subject() const { return tested_ == held_; }

  /// Returns normal numbers that the tested compute dtype holds, or its accumulator.
  [[nodiscard]] std::vector<double> normal_x(std::uint64_t stream, std::int64_t count) const;
  [[nodiscard]] std::vector<double> normal_a(std::uint64_t stream, std::int64_t count) const;

  /// Adds an input of normal numbers in the compute dtype, or in the accumulator.
  TensorView x(std::uint64_t stream, const Shape& shape, std::int64_t gap = 0);
  TensorView a(std::uint64_t stream, const Shape& shape, std::int64_t gap = 0);
  /// Adds an input with these values.
  TensorView values(const std::vector<double>& values, DType dtype, const Shape& shape,
                    std::int64_t gap = 0);
  /// Adds an input of integers in [0, limit).
  TensorView integers(std::uint64_t stream, std::int64_t count, std::int64_t limit);
  /// Adds bytes that a kernel reads through a pointer, and returns where they will lie.
  [[nodiscard]] const void* bytes(const void* data, std::size_t size);
  /// Adds an output; it begins as NaN.
  TensorView out(std::string_view name, DType dtype, const Shape& shape, const Allowed& allowed,
                 std::int64_t gap = 0);
  /// Adds memory whose contents are nobody's business afterwards.
  TensorView scratch(DType dtype, const Shape& shape);
  /// Says that what an input holds afterwards is nobody's business.
  TensorView consumed(const TensorView& view);
  /// Says that an input is changed, and compared. With `low` it is the high half of a split master
  /// weight, and the whole weight is compared as f32.
  TensorView changed(std::string_view name, const TensorView& view, const Allowed& allowed,
                     const TensorView& low = {});

  [[nodiscard]] const std::vector<std::byte>& image() const { return image_; }

  /// What the operator writes.
  struct Output {
    std::string name;
    TensorView view;
    TensorView low;
    Allowed allowed;
  };
  [[nodiscard]] const std::vector<Output>& outputs() const { return outputs_; }
  /// Returns the values of an output in a copy of the memory.
  [[nodiscard]] std::vector<double> values_of(const Output& output,
                                              const std::vector<std::byte>& memory) const;
  /// Returns the offset of a byte that changed though no output is there, or -1 if there is none.
  [[nodiscard]] std::int64_t stray_byte(const std::vector<std::byte>& memory) const;

 private:
  TensorView place(DType dtype, const Shape& shape, std::int64_t gap);
  void may_change(const TensorView& view);
  [[nodiscard]] std::size_t offset_of(const void* data) const;

  const std::byte* base_;
  DType tested_;
  DType held_;
  std::vector<std::byte> image_;
  std::vector<std::uint8_t> may_change_;  ///< by byte of the image
  std::vector<Output> outputs_;
};

/// Returns the largest relative error of one rounding to nearest.
[[nodiscard]] double unit_roundoff(DType dtype);

}  // namespace strata
