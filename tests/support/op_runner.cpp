// Moves values between f64 vectors and guarded tensors on the device, and repeats operators on the
// same bytes.

#include "support/op_runner.h"

#include <cstring>
#include <stdexcept>
#include <string>

#include "strata/base/bytes.h"
#include "strata/base/element.h"

namespace strata::test {

OpRunner::OpRunner(Backend& backend, int runs)
    : backend_(backend),
      runs_(runs),
      device_arena_(*backend.device, Space::kDevice, kBytes, "test tensors"),
      staging_arena_(*backend.device, Space::kPinned, kBytes, "test staging"),
      device_(device_arena_.allocate("tensors", kBytes)),
      staging_(staging_arena_.allocate("staging", kBytes)) {}

void OpRunner::reset() {
  backend_.device->synchronize();
  used_ = 0;
  tensors_.clear();
}

void OpRunner::repeat(std::string_view name, const std::function<void()>& submit) {
  if (runs_ == 1 || used_ == 0) return submit();
  std::vector<std::byte> before(used_);
  to_host(before.data(), device_, used_);
  submit();
  std::vector<std::byte> first(used_);
  to_host(first.data(), device_, used_);
  for (int run = 2; run <= runs_; ++run) {
    to_device(device_, before.data(), used_);
    submit();
    stream().copy(staging_, device_, used_, {});
    backend_.device->synchronize();
    if (std::memcmp(staging_, first.data(), used_) == 0) continue;
    throw std::runtime_error("operator " + std::string(name) + ": run " + std::to_string(run) +
                             " of " + std::to_string(runs_) + " wrote other bytes than the first");
  }
}

std::byte* OpRunner::place(const GuardedImage& image) {
  std::byte* at = device_ + used_;
  to_device(at, image.bytes().data(), image.bytes().size());
  used_ = round_up(used_ + image.bytes().size(), Arena::kAlignment);
  return at;
}

void OpRunner::to_device(std::byte* at, const void* bytes, std::size_t size) {
  if (static_cast<std::size_t>(at - device_) + size > kBytes) {
    throw std::length_error("the tensors of this test case need more than OpRunner::kBytes");
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

TensorView OpRunner::upload(const std::vector<double>& values, DType dtype, const Shape& shape,
                            std::int64_t row_stride) {
  const std::int64_t stride = row_stride == 0 ? shape.row_elements() : row_stride;
  if (values.size() != static_cast<std::size_t>(shape.elements())) {
    throw std::length_error("values do not fill " + shape.to_string());
  }
  GuardedImage image(dtype, shape, stride);
  const auto width = static_cast<std::size_t>(shape.row_elements());
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_element(image.row(i / width) + i % width * size_of(dtype), dtype, values[i]);
  }
  std::byte* at = place(image);
  tensors_.push_back({std::move(image), at});
  return {at + GuardedImage::kBand, dtype, shape, stride};
}

TensorView OpRunner::output(DType dtype, const Shape& shape, std::int64_t row_stride) {
  const std::int64_t stride = row_stride == 0 ? shape.row_elements() : row_stride;
  GuardedImage image(dtype, shape, stride);
  std::byte* at = place(image);
  tensors_.push_back({std::move(image), at});
  return {at + GuardedImage::kBand, dtype, shape, stride};
}

void* OpRunner::upload_bytes(const void* bytes, std::size_t size) {
  std::byte* at = device_ + used_;
  to_device(at, bytes, size);
  used_ = round_up(used_ + size, Arena::kAlignment);
  return at;
}

std::vector<double> OpRunner::download(const ConstTensorView& view) {
  const ByteRange range = view.bytes();
  std::vector<std::byte> bytes(range.bytes);
  if (!bytes.empty()) to_host(bytes.data(), range.begin, range.bytes);
  std::vector<double> values(static_cast<std::size_t>(view.elements()));
  const auto width = static_cast<std::size_t>(view.shape.row_elements());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t at = i / width * static_cast<std::size_t>(view.row_stride) + i % width;
    values[i] = load_element(bytes.data() + at * size_of(view.dtype), view.dtype);
  }
  return values;
}

bool OpRunner::guards_intact() {
  for (Tensor& t : tensors_) {
    to_host(t.image.bytes().data(), t.at, t.image.bytes().size());
    if (!t.image.intact()) return false;
  }
  return true;
}

}  // namespace strata::test
