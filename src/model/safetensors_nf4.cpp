// Reads matrices of bitsandbytes, trusting nothing of what lies beside them: the state (a JSON
// object in a tensor of bytes), and how many scales and groups there are.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "hugging_face_json.h"
#include "safetensors_header.h"
#include "strata/base/dtype.h"
#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/narrow.h"
#include "strata/model/safetensors.h"
#include "strata/model/stored_nf4.h"

namespace strata {
namespace {

using nlohmann::json;

[[noreturn]] void refuse_part(const FileTensor& part, const std::string& why) {
  throw IoError(in_tensor(part.file->path(), part.name) + why);
}

std::int64_t divided_up(std::int64_t count, std::int64_t size) {
  return count / size + (count % size == 0 ? 0 : 1);
}

/// The state of a matrix. Members that are not as bitsandbytes writes them are refused.
class Nf4State {
 public:
  explicit Nf4State(FileTensor part) : part_(std::move(part)), state_(read()) {}

  /// Refuses a state that says that its matrix is in another format than its name does.
  void require_nf4() const {
    const json found = value_at(state_, "quant_type");
    if (!found.is_null() && found != "nf4") refuse("quant_type", found, "nf4");
  }
  [[nodiscard]] StoredType dtype() const {
    constexpr std::pair<std::string_view, StoredType> kStateTypes[] = {
        {"bfloat16", StoredType::kBF16},
        {"float16", StoredType::kF16},
        {"float32", StoredType::kF32}};
    const json found = value_at(state_, "dtype");
    for (const auto& [name, type] : kStateTypes) {
      if (found == name) return type;
    }
    refuse("dtype", found, "bfloat16, float16 or float32");
  }
  /// Returns [rows, columns], whose product fits 63 bits.
  [[nodiscard]] std::vector<std::int64_t> shape() const {
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    const json found = value_at(state_, "shape");
    const bool is_pair =
        found.is_array() && found.size() == 2 && std::ranges::all_of(found, [](const json& extent) {
          return extent.is_number_unsigned() && extent.get<std::uint64_t>() > 0;
        });
    if (!is_pair || found[0].get<std::uint64_t>() > kMost / found[1].get<std::uint64_t>()) {
      refuse("shape", found, "the rows and columns of a matrix");
    }
    return {found[0].get<std::int64_t>(), found[1].get<std::int64_t>()};
  }
  /// Returns how many numbers share something.
  [[nodiscard]] std::int64_t size(const char* key) const {
    constexpr std::uint64_t kSmallest = 32;
    constexpr std::uint64_t kLargest = 4096;
    const json found = value_at(state_, key);
    const std::uint64_t size = found.is_number_unsigned() ? found.get<std::uint64_t>() : 0;
    if (!std::has_single_bit(size) || size < kSmallest || size > kLargest) {
      refuse(key, found, "a power of two from 32 to 4096");
    }
    return narrow<std::int64_t>(size);
  }
  [[nodiscard]] float offset() const {
    constexpr double kMost = std::numeric_limits<float>::max();
    const json found = value_at(state_, "nested_offset");
    if (!found.is_number() || !(std::abs(found.get<double>()) <= kMost)) {
      refuse("nested_offset", found, "a number of f32");
    }
    return static_cast<float>(found.get<double>());
  }

 private:
  [[nodiscard]] json read() const {
    constexpr std::uint64_t kMostBytes = 1 << 16;  // it takes some hundred
    const std::uint64_t bytes = part_.file->entry(part_.name).bytes;
    if (bytes > kMostBytes) refuse_part(part_, std::string("is too long") + kDamagedFile);
    std::string text(bytes, '\0');
    part_.file->read_bytes(part_.name, 0, std::as_writable_bytes(std::span(text)));
    std::string problem = "it is no object";
    try {
      json state = parse_json<json>(text);
      if (state.is_object()) return state;
    } catch (const std::exception& e) {
      problem = json_problem(e);
    }
    refuse_part(part_, "is not the JSON that bitsandbytes writes (" + problem + ")" + kDamagedFile);
  }
  [[noreturn]] void refuse(const char* key, const json& found, const std::string& expected) const {
    refuse_part(part_, std::string(key) + " is " + shown(found) + ", not " + expected);
  }

  FileTensor part_;
  json state_;
};

void require_elements(const FileTensor& part, std::int64_t count) {
  const std::int64_t found = part.file->info(part.name).elements;
  if (found == count) return;
  refuse_part(part, "has " + std::to_string(found) + " elements, not " + std::to_string(count) +
                        kDamagedFile);
}

void require_bytes(const FileTensor& part, std::int64_t count) {
  const std::uint64_t found = part.file->entry(part.name).bytes;
  if (std::cmp_equal(found, count)) return;
  refuse_part(
      part, "has " + std::to_string(found) + " bytes, not " + std::to_string(count) + kDamagedFile);
}

/// Reads a tensor of so many finite numbers.
std::vector<float> read_table(const FileTensor& part, std::size_t count) {
  require_elements(part, narrow<std::int64_t>(count));
  std::vector<float> values(count);
  part.file->read(part.name, 0, std::span(values));
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) {
    refuse_part(part, std::string("holds a NaN or an infinity") + kDamagedFile);
  }
  return values;
}

/// Kernels of bitsandbytes have levels of their own, whatever a file says; a file that says others
/// than they have is in another format.
void require_levels(const FileTensor& part, const Nf4Values& nf4) {
  constexpr float kTolerance = 1e-6F;  // with which bitsandbytes compares them
  const std::vector<float> levels = read_table(part, kNf4Levels);
  for (std::size_t i = 0; i < kNf4Levels; ++i) {
    if (std::abs(levels[i] - nf4.levels[i]) <= kTolerance) continue;
    refuse_part(part, "has other levels than 4-bit NormalFloat");
  }
}

constexpr float kLargestF16 = 65504;

/// Rounds to the nearest number of f16, ties to even.
float rounded_to_f16(float value) {
  constexpr int kDigits = 11;
  constexpr int kSmallest = -24;  // exponent of the smallest number
  int exponent = 0;
  (void)std::frexp(value, &exponent);
  const float step = std::ldexp(1.0F, std::max(exponent - kDigits, kSmallest));
  const float rounded = std::nearbyint(value / step) * step;
  if (std::abs(rounded) <= kLargestF16) return rounded;
  return std::copysign(std::numeric_limits<float>::infinity(), value);
}

float rounded_to(StoredType dtype, float value) {
  switch (dtype) {
    case StoredType::kBF16: return Bf16(value);
    case StoredType::kF16: return rounded_to_f16(value);
    default: return value;
  }
}

}  // namespace

StoredNf4::StoredNf4(FileTensor codes, const Parts& parts)
    : codes_(std::move(codes)), values_(nf4_values()) {
  const auto part = [&](std::string_view name) {
    const auto found = parts.find(name);
    if (found != parts.end()) return found->second;
    refuse_part(codes_,
                "is in 4 bits, but there is no " + std::string(name) + " of it" + kDamagedFile);
  };
  const Nf4State state(part(kParts[0]));
  state.require_nf4();
  shape_ = state.shape();
  dtype_ = state.dtype();
  block_ = state.size("blocksize");
  scales_ = part("absmax");
  const std::int64_t blocks = divided_up(elements(), block_);
  require_bytes(codes_, divided_up(elements(), 2));
  require_levels(part("quant_map"), values_);
  if (!parts.contains("nested_absmax")) {
    require_elements(scales_, blocks);
    return;
  }
  group_ = state.size("nested_blocksize");
  offset_ = state.offset();
  groups_ = part("nested_absmax");
  require_bytes(scales_, blocks);
  require_elements(groups_, divided_up(blocks, group_));
  const FileTensor map = part("nested_quant_map");
  std::ranges::copy(read_table(map, kNf4ScaleValues), values_.scale_values.begin());
  if (std::ranges::any_of(values_.scale_values, [](float value) { return std::abs(value) > 1; })) {
    refuse_part(map, std::string("holds a number beyond 1") + kDamagedFile);
  }
}

std::vector<float> StoredNf4::groups(std::int64_t begin, std::int64_t end) const {
  std::vector<float> groups(static_cast<std::size_t>(end - begin));
  groups_.file->read(groups_.name, begin, std::span(groups));
  // No number of the matrix is larger than this sum, so none becomes infinite where it is rounded,
  // to bf16 also one that was f32.
  constexpr float kLargestBf16 = 0x1.FEp127F;
  const bool is_f16 = dtype_ == StoredType::kF16;
  const float largest = is_f16 ? kLargestF16 : kLargestBf16;
  for (const float group : groups) {
    if (std::abs(group) + std::abs(offset_) <= largest) continue;
    refuse_part(groups_, std::string("holds a scale that is not finite in ") +
                             (is_f16 ? "f16" : "bf16") + kDamagedFile);
  }
  return groups;
}

std::vector<float> StoredNf4::scales(std::int64_t begin, std::int64_t end) const {
  std::vector<float> scales(static_cast<std::size_t>(end - begin));
  if (!is_double()) {
    scales_.file->read(scales_.name, begin, std::span(scales));
    return scales;
  }
  std::vector<std::uint8_t> codes(scales.size());
  scales_.file->read_bytes(scales_.name, begin, std::as_writable_bytes(std::span(codes)));
  const std::int64_t first_group = begin / group_;
  const std::vector<float> of_groups = groups(first_group, divided_up(end, group_));
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const std::int64_t group = (begin + static_cast<std::int64_t>(i)) / group_ - first_group;
    const float product =
        values_.scale_values[codes[i]] * of_groups[static_cast<std::size_t>(group)];
    scales[i] = product + offset_;
  }
  return scales;
}

template <class T>
void StoredNf4::read(std::int64_t first_element, std::span<T> out) const {
  require_range(codes_.file->path(), codes_.name, elements(), first_element, out.size());
  if (out.empty()) return;
  const std::int64_t end = first_element + std::ssize(out);
  const std::int64_t first_pair = first_element / 2;
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(divided_up(end, 2) - first_pair));
  codes_.file->read_bytes(codes_.name, first_pair, std::as_writable_bytes(std::span(codes)));
  const std::int64_t first_block = first_element / block_;
  const std::vector<float> of_blocks = scales(first_block, divided_up(end, block_));
  T* to = out.data();
  for (std::int64_t at = first_element; at < end;) {
    const std::int64_t block = at / block_;
    const float scale = of_blocks[static_cast<std::size_t>(block - first_block)];
    for (const std::int64_t last = std::min((block + 1) * block_, end); at < last; ++at) {
      const unsigned pair = codes[static_cast<std::size_t>(at / 2 - first_pair)];
      const float level = values_.levels[at % 2 == 0 ? pair >> 4 : pair & 15];
      *to++ = static_cast<T>(rounded_to(dtype_, level * scale));
    }
  }
}

template void StoredNf4::read(std::int64_t, std::span<double>) const;
template void StoredNf4::read(std::int64_t, std::span<float>) const;
template void StoredNf4::read(std::int64_t, std::span<Bf16>) const;

bool StoredNf4::has_parts() const {
  return is_double() && block_ == kNf4Block && group_ == kNf4Group && elements() % kNf4Block == 0;
}

void StoredNf4::read_parts(const Nf4Parts& parts) const {
  codes_.file->read_bytes(codes_.name, 0, std::as_writable_bytes(parts.codes));
  scales_.file->read_bytes(scales_.name, 0, std::as_writable_bytes(parts.scales));
  std::ranges::copy(groups(0, std::ssize(parts.groups)), parts.groups.begin());
  write_nf4_tables(values_, offset_, parts.tables);
}

}  // namespace strata
