// Reads the JSON header of a safetensors file and trusts nothing in it: types, shapes, offsets, and
// that tensors cover the data without gap or overlap.

#include "safetensors_header.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/narrow.h"
#include "strata/base/text.h"

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
    {StoredType::kI16, "I16", 2},
};

const TypeInfo& info_of(StoredType type) {
  return *std::ranges::find(kTypes, type, &TypeInfo::type);
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

/// Returns `entry[key]`; throws IoError unless it is there and `is` what it should be, which
/// `expected` says.
const json& member(const json& entry, const char* key, bool (json::*is)() const noexcept,
                   const char* expected) {
  const auto found = entry.find(key);  // the end where it is no object
  if (found != entry.end() && ((*found).*is)()) return *found;
  throw IoError(std::string("its ") + key + " is not " + expected + kDamagedFile);
}

std::vector<std::int64_t> parse_shape(const json& shape) {
  constexpr std::size_t kMostDimensions = 64;
  std::vector<std::int64_t> extents;
  for (const json& extent : shape) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > kMost ||
        extents.size() == kMostDimensions) {
      throw IoError("shape " + shown(shape) + " is not a list of up to " +
                    std::to_string(kMostDimensions) + " sizes from 0 to 2^63 - 1");
    }
    extents.push_back(extent.get<std::int64_t>());
  }
  return extents;
}

/// Returns one entry of the header; `data_begin` is where offsets count from. Throws IoError
/// without context, which the caller adds.
StoredTensor parse_entry(const json& entry, std::uint64_t data_begin, std::uint64_t data_bytes) {
  StoredTensor tensor;
  const json& dtype = member(entry, "dtype", &json::is_string, "a text");
  const json& shape = member(entry, "shape", &json::is_array, "a list of sizes");
  tensor.shape = parse_shape(shape);
  const json& offsets = member(entry, "data_offsets", &json::is_array, "a list of two offsets");
  if (offsets.size() != 2 || !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) {
    throw IoError("data_offsets " + shown(offsets) + " are not two byte offsets");
  }
  const auto begin = offsets[0].get<std::uint64_t>();
  const auto end = offsets[1].get<std::uint64_t>();
  if (begin > end || end > data_bytes) {
    throw IoError("data_offsets " + shown(offsets) + " lie outside the file's " +
                  std::to_string(data_bytes) + " bytes of data" + kDamagedFile);
  }
  tensor.bytes = end - begin;
  tensor.offset = data_begin + begin;
  const auto& name = dtype.get_ref<const std::string&>();
  const auto* const type = std::ranges::find(kTypes, name, &TypeInfo::name);
  if (type == std::end(kTypes)) {
    // How many bytes its elements take is not known here; nothing may need it.
    tensor.unsupported = name.empty() ? "of no name" : printable_name(shortened(name));
    return tensor;
  }
  tensor.dtype = type->type;
  const auto elements = count_elements(tensor.shape, type->bytes);
  if (!elements || static_cast<std::uint64_t>(*elements) * type->bytes != tensor.bytes) {
    throw IoError("data_offsets " + shown(offsets) + " do not hold shape " + shown(shape) + " of " +
                  std::string(type->name));
  }
  tensor.elements = *elements;
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
    ranges.push_back({tensor.offset, tensor.offset + tensor.bytes, name});
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

/// Refuses a key that an object has twice, but within metadata, where the library takes the last.
class RepeatedKeys {
 public:
  void operator()(json::parse_event_t event, const json& parsed) {
    if (event == json::parse_event_t::object_start) {
      open_.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      open_.pop_back();
    } else if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (open_.size() == 1) in_metadata_ = key == "__metadata__";
      if (open_.size() > 1 && in_metadata_) return;
      if (!open_.back().insert(key).second) {
        throw IoError("\"" + printable_name(shortened(key)) + "\" is given twice in one object");
      }
    }
  }

 private:
  std::vector<std::set<std::string>> open_;
  bool in_metadata_ = false;
};

}  // namespace

std::string_view name_of(StoredType type) { return info_of(type).name; }
std::size_t size_of(StoredType type) { return info_of(type).bytes; }

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t extent : shape) {
    text += (text.empty() ? "" : ", ") + std::to_string(extent);
  }
  return "[" + text + "]";
}

std::string in_file(const std::filesystem::path& file) {
  return printable_name(file.string()) + ": ";
}

std::string in_tensor(const std::filesystem::path& file, std::string_view name) {
  return in_file(file) + "tensor '" + printable_name(shortened(name)) + "': ";
}

void require_range(const std::filesystem::path& file, std::string_view name, std::int64_t elements,
                   std::int64_t first, std::size_t count) {
  if (first >= 0 && first <= elements && std::cmp_less_equal(count, elements - first)) return;
  throw IoError(in_tensor(file, name) + "elements [" + std::to_string(first) + ", +" +
                std::to_string(count) + ") asked for, it has " + std::to_string(elements));
}

json parse_json_object(const std::filesystem::path& file, std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  try {
    if (text.starts_with(kByteOrderMark)) throw IoError("it begins with a byte order mark");
    json parsed = parse_json<json>(text, JsonComments::kRefuse, RepeatedKeys());
    if (parsed.is_object()) return parsed;
  } catch (const std::exception& e) {
    throw IoError(in_file(file) + "its JSON cannot be read (" + json_problem(e) + ")" +
                  kDamagedFile);
  }
  throw IoError(in_file(file) + "its JSON is not an object" + kDamagedFile);
}

namespace {

/// The library takes texts and nothing else for metadata, or null for none.
void check_metadata(const std::filesystem::path& file, const json& metadata) {
  const bool texts = metadata.is_object() && std::ranges::all_of(metadata, &json::is_string);
  if (texts || metadata.is_null()) return;
  throw IoError(in_file(file) + "its __metadata__ is not an object of texts" + kDamagedFile);
}

}  // namespace

StoredTensors parse_safetensors_header(const std::filesystem::path& file, std::string_view text,
                                       std::uint64_t data_begin, std::uint64_t data_end) {
  StoredTensors tensors;
  const json header = parse_json_object(file, text);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      check_metadata(file, entry);
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
