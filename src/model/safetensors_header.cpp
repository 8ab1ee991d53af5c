// Reads the JSON header of a safetensors file and trusts nothing in it: types, shapes, offsets, and
// that tensors cover the data without gap or overlap.

#include "safetensors_header.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/narrow.h"

namespace strata {
namespace {

using nlohmann::json;

struct TypeInfo {
  StoredType type;
  std::string_view name;
  std::size_t bytes;
};
constexpr TypeInfo kTypes[] = {
    {StoredType::kF64, "F64", 8}, {StoredType::kF32, "F32", 4}, {StoredType::kBF16, "BF16", 2},
    {StoredType::kF16, "F16", 2}, {StoredType::kI64, "I64", 8}, {StoredType::kI32, "I32", 4},
};

const TypeInfo& info_of(StoredType type) {
  return *std::ranges::find(kTypes, type, &TypeInfo::type);
}

StoredType parse_type(const std::string& name) {
  const auto* const found = std::ranges::find(kTypes, name, &TypeInfo::name);
  if (found == std::end(kTypes)) {
    throw IoError("dtype " + name +
                  " is not supported: convert the file to BF16, F16, F32 or F64 (I32, I64)");
  }
  return found->type;
}

/// Returns the elements of `shape`, or nothing if their bytes do not fit 63 bits.
std::optional<std::int64_t> count_elements(const std::vector<std::int64_t>& shape,
                                           std::size_t element_bytes) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(elements, extent, &elements)) {
      return std::nullopt;
    }
  }
  if (elements > std::numeric_limits<std::int64_t>::max() / narrow<std::int64_t>(element_bytes)) {
    return std::nullopt;
  }
  return elements;
}

/// Returns one entry of the header; `data_begin` is where offsets count from. Throws IoError or
/// JSON errors without context, which the caller adds.
StoredTensor parse_entry(const json& entry, std::uint64_t data_begin, std::uint64_t data_bytes) {
  StoredTensor tensor;
  tensor.dtype = parse_type(entry.at("dtype").get_ref<const std::string&>());
  const json& shape = entry.at("shape");
  if (!shape.is_array()) throw IoError("shape " + shape.dump() + " is not a list of sizes");
  for (const json& extent : shape) {
    if (!extent.is_number_unsigned()) {
      throw IoError("shape " + shape.dump() + " is not a list of sizes");
    }
    tensor.shape.push_back(narrow<std::int64_t>(extent.get<std::uint64_t>()));
  }
  const json& offsets = entry.at("data_offsets");
  if (offsets.size() != 2 || !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) {
    throw IoError("data_offsets " + offsets.dump() + " are not two byte offsets");
  }
  const auto begin = offsets[0].get<std::uint64_t>();
  const auto end = offsets[1].get<std::uint64_t>();
  if (begin > end || end > data_bytes) {
    throw IoError("data_offsets " + offsets.dump() + " lie outside the file's " +
                  std::to_string(data_bytes) + " bytes of data" + kDamagedFile);
  }
  const auto elements = count_elements(tensor.shape, size_of(tensor.dtype));
  if (!elements || static_cast<std::uint64_t>(*elements) * size_of(tensor.dtype) != end - begin) {
    throw IoError("data_offsets " + offsets.dump() + " do not hold shape " + shape.dump() + " of " +
                  std::string(name_of(tensor.dtype)));
  }
  tensor.elements = *elements;
  tensor.offset = data_begin + begin;
  return tensor;
}

/// Throws IoError unless tensors follow each other without gap or overlap from `begin` to `end`.
void check_coverage(const std::filesystem::path& file, const StoredTensors& tensors,
                    std::uint64_t begin, std::uint64_t end) {
  struct Range {
    std::uint64_t begin, end;
    std::string_view name;
  };
  std::vector<Range> ranges;
  for (const auto& [name, tensor] : tensors) {
    const auto bytes = static_cast<std::uint64_t>(tensor.elements) * size_of(tensor.dtype);
    ranges.push_back({tensor.offset, tensor.offset + bytes, name});
  }
  std::ranges::sort(ranges, {}, [](const Range& r) { return std::pair(r.begin, r.end); });
  for (const Range& range : ranges) {
    if (range.begin != begin) {
      throw IoError(in_tensor(file, range.name) + "its data " +
                    (range.begin < begin ? "overlaps another tensor's" : "follows a gap") +
                    kDamagedFile);
    }
    begin = range.end;
  }
  if (begin != end) {
    throw IoError(in_file(file) + std::to_string(end - begin) +
                  " bytes at the end belong to no tensor" + kDamagedFile);
  }
}

}  // namespace

std::string_view name_of(StoredType type) { return info_of(type).name; }
std::size_t size_of(StoredType type) { return info_of(type).bytes; }

std::string in_file(const std::filesystem::path& file) { return file.string() + ": "; }

std::string in_tensor(const std::filesystem::path& file, std::string_view name) {
  return in_file(file) + "tensor '" + std::string(name) + "': ";
}

json parse_json_object(const std::filesystem::path& file, std::string_view text) {
  try {
    json parsed = json::parse(text);
    if (!parsed.is_object()) {
      throw IoError(in_file(file) + "its JSON is not an object" + kDamagedFile);
    }
    return parsed;
  } catch (const json::exception& e) {
    throw IoError(in_file(file) + "its JSON cannot be read (" + e.what() + ")" + kDamagedFile);
  }
}

StoredTensors parse_safetensors_header(const std::filesystem::path& file, std::string_view text,
                                       std::uint64_t data_begin, std::uint64_t data_end) {
  StoredTensors tensors;
  const json header = parse_json_object(file, text);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      continue;
    }
    try {
      tensors.emplace(name, parse_entry(entry, data_begin, data_end - data_begin));
    } catch (const std::exception& e) {
      throw IoError(in_tensor(file, name) + e.what());
    }
  }
  check_coverage(file, tensors, data_begin, data_end);
  return tensors;
}

}  // namespace strata
