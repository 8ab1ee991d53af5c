// Runs operators of any backend on values given and taken as f64, and compares what they wrote. The
// checks of operators and the goldens use it, so that each is written once for all backends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "strata/device/arena.h"
#include "strata/op_checks/reference.h"
#include "strata/ops/backend.h"

namespace strata {

/// The values of all outputs of a check, in the order in which they were compared.
using Outputs = std::vector<std::vector<double>>;

/// Runs operators of a backend on values given and taken as f64. Every tensor lies between guard
/// bands (and has them between its rows, if strided); outputs begin as NaN. All work goes to the
/// compute lane; memory is taken once and reused after reset(). What an operator does wrong is
/// thrown as CheckFailure that names the check and the operator.
class OpRunner {
 public:
  static constexpr std::size_t kBytes = std::size_t{64} << 20;

  /// With `runs` above 1 every operator runs that many times on the same bytes, and must leave the
  /// same bytes in all tensors each time.
  explicit OpRunner(Backend& backend, int runs = 1);

  /// Forgets all tensors and outputs. `check` says what is checked from now on, for messages.
  void reset(std::string check = {});
  /// A tensor with these values (row-major, without gaps), which must be exact in `dtype`.
  /// `row_stride` 0 means contiguous.
  [[nodiscard]] TensorView upload(const std::vector<double>& values, DType dtype,
                                  const Shape& shape, std::int64_t row_stride = 0);
  /// A tensor of NaN (integers: -1).
  [[nodiscard]] TensorView output(DType dtype, const Shape& shape, std::int64_t row_stride = 0);
  /// Bytes that a kernel reads through a plain pointer (AdamWScalars), in memory it can read.
  [[nodiscard]] void* upload_bytes(const void* bytes, std::size_t size);

  /// Requires that the operator changes no byte but elements of the tensors that it says it writes.
  template <Op O>
  void run(const O& op) {
    operator_ = O::kName;
    names_.insert(operator_);
    run_and_watch(op.accesses().writes, [&] { backend_.kernels->run(stream(), op, {}); });
  }
  /// Returns the names of all operators that have run.
  [[nodiscard]] const std::set<std::string>& names() const { return names_; }
  /// Returns the name of the operator that ran last: what was compared since is its output.
  [[nodiscard]] const std::string& last_operator() const { return operator_; }

  /// Waits, then the values of a tensor, row-major, without gaps.
  [[nodiscard]] std::vector<double> download(const ConstTensorView& view);
  /// Require that an output of the last operator is as expected (reference.h).
  void require_close(std::string_view name, const ConstTensorView& view, const Expected& expected,
                     DType accumulator, DType intermediate = DType::kF64);
  void require_equal(std::string_view name, const ConstTensorView& view,
                     const std::vector<double>& expected);
  void require_equal(std::string_view name, const std::vector<double>& got,
                     const std::vector<double>& expected);
  /// Throws CheckFailure that names the check, the last operator, and `what` it did.
  [[noreturn]] void fail(const std::string& what) const;
  /// Returns what was compared since reset().
  [[nodiscard]] const Outputs& outputs() const { return outputs_; }

  /// The error that came nearest to its bound, of all checks: its share of the bound, and the
  /// operator that made it.
  struct Nearest {
    double share = 0;
    std::string name;
  };
  [[nodiscard]] const Nearest& nearest() const { return nearest_; }

  [[nodiscard]] Kernels& kernels() const { return *backend_.kernels; }
  [[nodiscard]] Stream& stream() const { return backend_.device->stream(Lane::kCompute); }

 private:
  /// Places a tensor; its elements are these, or NaN if there are none.
  TensorView place(DType dtype, const Shape& shape, std::int64_t row_stride,
                   const std::vector<double>* values);
  std::byte* append(const std::vector<std::byte>& bytes);
  void run_and_watch(const std::vector<ByteRange>& writes, const std::function<void()>& submit);
  /// Runs the operator, then copies all bytes to the staging memory and waits.
  void run_and_fetch(const std::function<void()>& submit);
  /// Takes over what the staging memory has. Fails if a byte outside of these ranges was changed,
  /// which are in ascending order.
  void take_changes(const std::vector<ByteRange>& may);
  /// Returns the bytes of elements that are within one of `writes`, in ascending order.
  [[nodiscard]] std::vector<ByteRange> may_change(const std::vector<ByteRange>& writes) const;
  [[nodiscard]] std::string label() const;
  void to_device(std::byte* at, const void* bytes, std::size_t size);
  void to_host(void* bytes, const std::byte* at, std::size_t size);

  Backend& backend_;
  int runs_;
  Arena device_arena_;
  Arena staging_arena_;
  std::byte* device_;
  std::byte* staging_;
  std::vector<std::byte> bytes_;  ///< what the device has
  std::vector<TensorView> tensors_;
  std::string check_;
  std::string operator_;
  std::set<std::string> names_;
  Outputs outputs_;
  Nearest nearest_;
};

}  // namespace strata
