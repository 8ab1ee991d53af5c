// Moves values between f64 vectors and tensors on the device, and compares all bytes of all tensors
// before an operator, after it, and after it ran again. A copy of what the device has stays here.

#include "strata/op_checks/op_runner.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/element.h"
#include "strata/base/log.h"

namespace strata {

namespace {

constexpr std::size_t kBand = 256;        // bytes before and behind each tensor
constexpr std::byte kBandByte{0xa5};      // what they hold, and what is between rows
constexpr std::byte kUnwrittenByte{255};  // NaN in all floating dtypes, -1 in integers

/// Elements that lie side by side: those of a row, or all if the tensor is contiguous.
struct Rows {
  std::size_t count, width;  ///< width in elements
  std::size_t stride_bytes;  ///< from the begin of one to that of the next
};

Rows rows_of(const ConstTensorView& view) {
  const std::int64_t count = view.contiguous() ? 1 : view.rows();
  return {.count = static_cast<std::size_t>(count),
          .width = static_cast<std::size_t>(view.elements() / std::max<std::int64_t>(count, 1)),
          .stride_bytes = static_cast<std::size_t>(view.row_stride) * size_of(view.dtype)};
}

}  // namespace

OpRunner::OpRunner(Backend& backend, int runs)
    : backend_(backend),
      runs_(runs),
      device_arena_(*backend.device, Space::kDevice, kBytes, "tensors of checks"),
      staging_arena_(*backend.device, Space::kPinned, kBytes, "staging of checks"),
      device_(device_arena_.allocate("tensors", kBytes)),
      staging_(staging_arena_.allocate("staging", kBytes)) {}

void OpRunner::reset(std::string check) {
  backend_.device->synchronize();
  bytes_.clear();
  tensors_.clear();
  outputs_.clear();
  check_ = std::move(check);
}

void OpRunner::run_and_watch(const std::vector<ByteRange>& writes,
                             const std::function<void()>& submit) {
  const std::vector<std::byte> before = runs_ > 1 ? bytes_ : std::vector<std::byte>();
  run_and_fetch(submit);
  take_changes(may_change(writes));
  for (int run = 2; run <= runs_; ++run) {
    to_device(device_, before.data(), before.size());
    run_and_fetch(submit);
    if (bytes_.empty() || std::memcmp(staging_, bytes_.data(), bytes_.size()) == 0) continue;
    fail(fmt::format("wrote other bits when it ran again on the same bytes (run {} of {})", run,
                     runs_));
  }
}

void OpRunner::run_and_fetch(const std::function<void()>& submit) {
  submit();
  if (!bytes_.empty()) stream().copy(staging_, device_, bytes_.size(), {});
  backend_.device->synchronize();
}

void OpRunner::take_changes(const std::vector<ByteRange>& may) {
  const auto require_same = [&](std::size_t begin, std::size_t end) {
    if (begin >= end) return;
    if (std::memcmp(staging_ + begin, bytes_.data() + begin, end - begin) == 0) return;
    fail("wrote beside its outputs");
  };
  std::size_t seen = 0;
  for (const ByteRange& range : may) {
    const auto begin = static_cast<std::size_t>(range.begin - device_);
    require_same(seen, begin);
    seen = std::max(seen, begin + range.bytes);
  }
  require_same(seen, bytes_.size());
  std::copy_n(staging_, bytes_.size(), bytes_.begin());
}

std::vector<ByteRange> OpRunner::may_change(const std::vector<ByteRange>& writes) const {
  std::vector<ByteRange> may;
  constexpr std::less<> kBefore;  // also of pointers into different memory
  for (const TensorView& tensor : tensors_) {
    const Rows rows = rows_of(tensor);
    const std::size_t row_bytes = rows.width * size_of(tensor.dtype);
    for (std::size_t row = 0; row < rows.count; ++row) {
      const auto* const begin =
          static_cast<const std::byte*>(tensor.data) + row * rows.stride_bytes;
      for (const ByteRange& range : writes) {
        const std::byte* const from = std::max(begin, range.begin, kBefore);
        const std::byte* const to = std::min(begin + row_bytes, range.begin + range.bytes, kBefore);
        if (kBefore(from, to)) may.push_back({from, static_cast<std::size_t>(to - from)});
      }
    }
  }
  std::ranges::sort(may, kBefore, &ByteRange::begin);
  return may;
}

void OpRunner::to_device(std::byte* at, const void* bytes, std::size_t size) {
  if (static_cast<std::size_t>(at - device_) + size > kBytes) {
    throw std::length_error("the tensors of this check need more than OpRunner::kBytes");
  }
  if (size == 0) return;           // then there may be no bytes to point at
  backend_.device->synchronize();  // the staging buffer is used again
  std::memcpy(staging_, bytes, size);
  stream().copy(at, staging_, size, {});
}

void OpRunner::to_host(void* bytes, const std::byte* at, std::size_t size) {
  stream().copy(staging_, at, size, {});
  backend_.device->synchronize();
  std::memcpy(bytes, staging_, size);
}

TensorView OpRunner::place(DType dtype, const Shape& shape, std::int64_t row_stride,
                           const std::vector<double>* values) {
  const TensorView view(device_ + bytes_.size() + kBand, dtype, shape,
                        row_stride == 0 ? shape.row_elements() : row_stride);
  const std::size_t size = size_of(dtype);
  const Rows rows = rows_of(view);
  std::vector<std::byte> image(
      2 * kBand + static_cast<std::size_t>(view.rows()) * rows.stride_bytes, kBandByte);
  for (std::size_t row = 0; row < rows.count; ++row) {
    std::byte* const begin = image.data() + kBand + row * rows.stride_bytes;
    if (values == nullptr) {
      std::fill_n(begin, rows.width * size, kUnwrittenByte);
      continue;
    }
    const double* const from = values->data() + row * rows.width;
    for (std::size_t i = 0; i < rows.width; ++i) store_element(begin + i * size, dtype, from[i]);
  }
  append(image);
  tensors_.push_back(view);
  return view;
}

std::byte* OpRunner::append(const std::vector<std::byte>& bytes) {
  std::byte* const at = device_ + bytes_.size();
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  bytes_.resize(round_up(bytes_.size(), Arena::kAlignment), kBandByte);
  to_device(at, bytes_.data() + (at - device_),
            bytes_.size() - static_cast<std::size_t>(at - device_));
  return at;
}

TensorView OpRunner::upload(const std::vector<double>& values, DType dtype, const Shape& shape,
                            std::int64_t row_stride) {
  if (values.size() != static_cast<std::size_t>(shape.elements())) {
    throw std::length_error("values do not fill " + shape.to_string());
  }
  return place(dtype, shape, row_stride, &values);
}

TensorView OpRunner::output(DType dtype, const Shape& shape, std::int64_t row_stride) {
  return place(dtype, shape, row_stride, nullptr);
}

void* OpRunner::upload_bytes(const void* bytes, std::size_t size) {
  const auto* const begin = static_cast<const std::byte*>(bytes);
  return append({begin, begin + size});
}

std::vector<double> OpRunner::download(const ConstTensorView& view) {
  const ByteRange range = view.bytes();
  std::vector<std::byte> bytes(range.bytes);
  if (!bytes.empty()) to_host(bytes.data(), range.begin, range.bytes);
  std::vector<double> values(static_cast<std::size_t>(view.elements()));
  const std::size_t size = size_of(view.dtype);
  const Rows rows = rows_of(view);
  for (std::size_t row = 0; row < rows.count; ++row) {
    const std::byte* const begin = bytes.data() + row * rows.stride_bytes;
    double* const to = values.data() + row * rows.width;
    for (std::size_t i = 0; i < rows.width; ++i) to[i] = load_element(begin + i * size, view.dtype);
  }
  return values;
}

std::string OpRunner::label() const { return (check_.empty() ? "" : check_ + ": ") + operator_; }

void OpRunner::fail(const std::string& what) const { throw CheckFailure(label() + " " + what); }

void OpRunner::require_close(std::string_view name, const ConstTensorView& view,
                             const Expected& expected, DType accumulator, DType intermediate) {
  outputs_.push_back(download(view));
  const double share = strata::require_close(
      fmt::format("{}'s {}", label(), name), outputs_.back(), expected,
      {.out = view.dtype, .accumulator = accumulator, .intermediate = intermediate});
  if (share > nearest_.share) nearest_ = {.share = share, .name = operator_};
}

void OpRunner::require_equal(std::string_view name, const ConstTensorView& view,
                             const std::vector<double>& expected) {
  require_equal(name, download(view), expected);
}

void OpRunner::require_equal(std::string_view name, const std::vector<double>& got,
                             const std::vector<double>& expected) {
  outputs_.push_back(got);
  strata::require_equal(fmt::format("{}'s {}", label(), name), got, expected);
}

}  // namespace strata
