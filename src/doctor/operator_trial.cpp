// Lays the tensors of a trial out in one piece of memory, with bands between them that nobody may
// write, and reads values back. The memory goes to the device and back as a whole.

#include "doctor/operator_trial.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/convert.h"
#include "strata/base/element.h"
#include "strata/base/random.h"

namespace strata {

namespace {

constexpr std::uint64_t kSeed = 2026;
constexpr std::size_t kBand = 256;        // bytes around each tensor
constexpr std::byte kBandByte{0xa5};      // what they hold
constexpr std::byte kUnwrittenByte{255};  // NaN in all floating dtypes, -1 in integers

template <class T>
T read_as(const std::byte* from) {
  T x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

/// Calls visit(element, byte offset from the view's begin) for every element, row by row.
template <class F>
void for_each_element(const TensorView& view, F visit) {
  const auto width = static_cast<std::size_t>(view.shape.row_elements());
  const auto count = static_cast<std::size_t>(view.elements());
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = i / width * static_cast<std::size_t>(view.row_stride) + i % width;
    visit(i, at * size_of(view.dtype));
  }
}

std::vector<double> normals(std::uint64_t stream, std::int64_t count, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(count));
  random_normals(kSeed, stream, 0, values);
  for (double& value : values) {
    std::byte rounded[sizeof(double)];
    store_element(rounded, dtype, value);
    value = load_element(rounded, dtype);
  }
  return values;
}

}  // namespace

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::kF64: return 0x1p-53;
    case DType::kBF16: return 0x1p-8;
    default: return 0x1p-24;
  }
}

TrialMachine::TrialMachine(Backend backend)
    : backend_(std::move(backend)),
      device_arena_(*backend_.device, Space::kDevice, kBytes, "trial tensors"),
      staging_arena_(*backend_.device, Space::kPinned, kBytes, "trial staging"),
      device_(device_arena_.allocate("tensors", kBytes)),
      staging_(staging_arena_.allocate("staging", kBytes)) {}

void TrialMachine::upload(const std::vector<std::byte>& image) {
  if (image.size() > kBytes) throw std::length_error("a trial needs more than kBytes");
  std::copy(image.begin(), image.end(), staging_);
  backend_.device->stream(Lane::kCompute).copy(device_, staging_, image.size(), {});
}

std::vector<std::byte> TrialMachine::download(std::size_t bytes) {
  backend_.device->stream(Lane::kCompute).copy(staging_, device_, bytes, {});
  backend_.device->synchronize();
  return {staging_, staging_ + bytes};
}

std::vector<double> TrialTensors::normal_x(std::uint64_t stream, std::int64_t count) const {
  return normals(stream, count, tested_);
}

std::vector<double> TrialTensors::normal_a(std::uint64_t stream, std::int64_t count) const {
  return normals(stream, count, accumulator_of(tested_));
}

TensorView TrialTensors::x(std::uint64_t stream, const Shape& shape, std::int64_t gap) {
  return values(normal_x(stream, shape.elements()), compute(), shape, gap);
}

TensorView TrialTensors::a(std::uint64_t stream, const Shape& shape, std::int64_t gap) {
  return values(normal_a(stream, shape.elements()), accumulator(), shape, gap);
}

TensorView TrialTensors::values(const std::vector<double>& values, DType dtype, const Shape& shape,
                                std::int64_t gap) {
  const TensorView view = place(dtype, shape, gap);
  std::byte* const at = image_.data() + offset_of(view.data);
  for_each_element(view, [&](std::size_t i, std::size_t offset) {
    store_element(at + offset, dtype, values.at(i));
  });
  return view;
}

TensorView TrialTensors::integers(std::uint64_t stream, std::int64_t count, std::int64_t limit) {
  std::vector<double> drawn(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    drawn[i] = std::floor(random_uniform(kSeed, stream, i) * static_cast<double>(limit));
  }
  return values(drawn, DType::kI32, {count});
}

const void* TrialTensors::bytes(const void* data, std::size_t size) {
  const TensorView view = place(DType::kU8, {static_cast<std::int64_t>(size)}, 0);
  std::memcpy(image_.data() + offset_of(view.data), data, size);
  return view.data;
}

TensorView TrialTensors::out(std::string_view name, DType dtype, const Shape& shape,
                             const Allowed& allowed, std::int64_t gap) {
  return changed(name, place(dtype, shape, gap), allowed);
}

TensorView TrialTensors::scratch(DType dtype, const Shape& shape) {
  return consumed(place(dtype, shape, 0));
}

TensorView TrialTensors::consumed(const TensorView& view) {
  may_change(view);
  return view;
}

TensorView TrialTensors::changed(std::string_view name, const TensorView& view,
                                 const Allowed& allowed, const TensorView& low) {
  may_change(view);
  if (low) may_change(low);
  outputs_.push_back({.name = std::string(name), .view = view, .low = low, .allowed = allowed});
  return view;
}

TensorView TrialTensors::place(DType dtype, const Shape& shape, std::int64_t gap) {
  const std::int64_t stride = shape.row_elements() + gap;
  const std::size_t begin = round_up(image_.size(), Arena::kAlignment) + kBand;
  const auto rows = static_cast<std::size_t>(shape.rank() == 0 ? 1 : shape[0]);
  image_.resize(begin + rows * static_cast<std::size_t>(stride) * size_of(dtype) + kBand,
                kBandByte);
  may_change_.resize(image_.size(), 0);
  // The image is a copy of what lies at base_, where the backend will read and write.
  const TensorView view(const_cast<std::byte*>(base_) + begin, dtype, shape, stride);
  for_each_element(view, [&](std::size_t, std::size_t offset) {
    std::fill_n(image_.begin() + static_cast<std::ptrdiff_t>(begin + offset), size_of(dtype),
                kUnwrittenByte);
  });
  return view;
}

void TrialTensors::may_change(const TensorView& view) {
  const std::size_t begin = offset_of(view.data);
  for_each_element(view, [&](std::size_t, std::size_t offset) {
    std::fill_n(may_change_.begin() + static_cast<std::ptrdiff_t>(begin + offset),
                size_of(view.dtype), std::uint8_t{1});
  });
}

std::size_t TrialTensors::offset_of(const void* data) const {
  return static_cast<std::size_t>(static_cast<const std::byte*>(data) - base_);
}

std::vector<double> TrialTensors::values_of(const Output& output,
                                            const std::vector<std::byte>& memory) const {
  std::vector<double> values(static_cast<std::size_t>(output.view.elements()));
  const std::byte* const at = memory.data() + offset_of(output.view.data);
  for_each_element(output.view, [&](std::size_t i, std::size_t offset) {
    values[i] = load_element(at + offset, output.view.dtype);
  });
  if (!output.low) return values;
  const std::byte* const low = memory.data() + offset_of(output.low.data);
  for_each_element(output.low, [&](std::size_t i, std::size_t offset) {
    const auto high = read_as<std::uint16_t>(at + i * sizeof(std::uint16_t));
    values[i] = join_f32({.high = high, .low = read_as<std::int16_t>(low + offset)});
  });
  return values;
}

std::int64_t TrialTensors::stray_byte(const std::vector<std::byte>& memory) const {
  for (std::size_t i = 0; i < image_.size(); ++i) {
    if (may_change_[i] == 0 && memory[i] != image_[i]) return static_cast<std::int64_t>(i);
  }
  return -1;
}

}  // namespace strata
