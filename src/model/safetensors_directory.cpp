// Finds the files of a model folder and which of them holds each tensor. A single file wins over an
// index, and shards must lie beside their index.

#include <algorithm>
#include <system_error>
#include <type_traits>
#include <utility>

#include "safetensors_header.h"
#include "strata/base/dtype.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/model/other_weights.h"
#include "strata/model/safetensors.h"

namespace strata {

namespace {

/// Returns the map of tensors to files that an index holds.
nlohmann::json weight_map(const std::filesystem::path& index) {
  constexpr std::size_t kMostBytes = 100'000'000;
  const nlohmann::json parsed =
      parse_json_object(index, read_text_file(index, kMostBytes, Links::kOfModel));
  const auto map = parsed.find("weight_map");
  if (map == parsed.end() || !map->is_object()) {
    throw IoError(in_file(index) + "has no weight_map");
  }
  return *map;
}

/// Says that an index is passed over which names other files than the single one beside it: one of
/// the two is left from another model, and programs differ in which they take.
void warn_of_index(const std::filesystem::path& index) {
  try {
    const nlohmann::json map = weight_map(index);
    for (const auto& [name, file] : map.items()) {
      if (!file.is_string() || file == "model.safetensors") continue;
      return log::warn(
          "{} names other files than the model.safetensors beside it ({}), which is read; remove "
          "what is not meant",
          printable_name(index.string()),
          printable_name(shortened(file.get_ref<const std::string&>())));
    }
  } catch (const IoError& error) {
    log::warn("{}; the model.safetensors beside it is read", error.what());
  }
}

template <class T>
T converted(double value) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return Bf16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// The beginning, behind the name of a matrix, of that of the tensor which says that the matrix is
/// in 4 bits. What follows it is the format.
constexpr std::string_view kStates = ".quant_state.bitsandbytes__";

/// Returns the name that a tensor has in a folder of a text part alone.
std::string name_in_text_part(std::string_view stored) {
  constexpr std::string_view kOld = "language_model.";
  constexpr std::string_view kNew = "model.language_model.";  // of transformers 5
  if (stored.starts_with(kOld)) return std::string(stored.substr(kOld.size()));
  if (stored.starts_with(kNew)) return "model." + std::string(stored.substr(kNew.size()));
  return std::string(stored);
}

}  // namespace

SafetensorsDirectory::SafetensorsDirectory(const std::filesystem::path& folder) : folder_(folder) {
  const auto single = folder / "model.safetensors";
  const auto index = folder / "model.safetensors.index.json";
  std::error_code error;
  const auto has = [&](const std::filesystem::path& file) {
    const std::filesystem::file_status status = std::filesystem::symlink_status(file, error);
    if (status.type() != std::filesystem::file_type::none) return std::filesystem::exists(status);
    throw IoError(in_file(shortened(folder.string())) + "cannot be searched for weights: " +
                  error.message() + "; name a folder that this user can read");
  };
  if (has(single)) {
    if (has(index)) warn_of_index(index);
    const auto& file = files_.try_emplace("model.safetensors", single).first->second;
    for (const std::string& name : file.tensors()) add(name, file);
  } else if (has(index)) {
    open_shards(index);
  } else {
    const std::string others = other_weights(folder);
    throw IoError(in_file(folder) +
                  (others.empty() ? "has neither model.safetensors nor model.safetensors.index.json"
                                  : others));
  }
  join_matrices_in_4_bits();
}

void SafetensorsDirectory::open_shards(const std::filesystem::path& index) {
  const nlohmann::json map = weight_map(index);
  for (const auto& [name, shard] : map.items()) {
    if (!shard.is_string()) {
      throw IoError(in_tensor(index, name) + "its shard is not a file name");
    }
    const auto& file_name = shard.get_ref<const std::string&>();
    if (std::filesystem::path(file_name).filename() != file_name) {
      throw IoError(in_tensor(index, name) + "its shard '" + printable_name(shortened(file_name)) +
                    "' is not the name of a file beside the index");
    }
    const auto& file = files_.try_emplace(file_name, folder_ / file_name).first->second;
    if (!file.contains(name)) {
      throw IoError(in_tensor(file.path(), name) + "promised by " + index.string() +
                    ", but not there");
    }
    add(name, file);
  }
}

void SafetensorsDirectory::add(const std::string& stored, const SafetensorsFile& file) {
  const std::string name = name_in_text_part(stored);
  const auto [home, is_new] = homes_.try_emplace(name, FileTensor{.file = &file, .name = stored});
  if (!is_new && home->second.name != stored) {
    throw IoError(in_tensor(file.path(), stored) + "is there as '" +
                  printable_name(shortened(home->second.name)) + "' too");
  }
}

void SafetensorsDirectory::join_matrices_in_4_bits() {
  std::vector<std::string> matrices;
  for (const auto& [name, home] : homes_) {
    const std::size_t at = name.find(kStates);
    if (at == name.npos) continue;
    const std::string format = name.substr(at + kStates.size());
    if (format != "nf4") {
      throw IoError(in_tensor(home.file->path(), home.name) + "a matrix in " +
                    printable_name(shortened(format)) +
                    " is not supported, of bitsandbytes' formats only nf4; use the bf16, f16 or "
                    "f32 original, or round it again with bnb_4bit_quant_type \"nf4\"");
    }
    matrices.push_back(name.substr(0, at));
  }
  for (const std::string& matrix : matrices) add_in_4_bits(matrix);
}

void SafetensorsDirectory::add_in_4_bits(const std::string& name) {
  StoredNf4::Parts parts;
  for (const std::string_view part : StoredNf4::kParts) {
    const auto found = homes_.find(name + "." + std::string(part));
    if (found == homes_.end()) continue;
    parts.emplace(part, std::move(found->second));
    homes_.erase(found);
  }
  StoredNf4 matrix(home_of(name), parts);
  StoredTensor info{.dtype = matrix.dtype(), .shape = matrix.shape(), .unsupported = {}};
  info.elements = matrix.elements();
  packed_.emplace(name, Packed{.info = std::move(info), .matrix = std::move(matrix)});
}

std::vector<std::string> SafetensorsDirectory::tensors() const {
  std::vector<std::string> names;
  for (const auto& [name, home] : homes_) {
    names.push_back(name);
  }
  return names;
}

const StoredTensor& SafetensorsDirectory::info(std::string_view name) const {
  const auto extended = extended_.find(name);
  return extended == extended_.end() ? stored_info(name) : extended->second.info;
}

const StoredTensor& SafetensorsDirectory::stored_info(std::string_view name) const {
  const auto packed = packed_.find(name);
  if (packed != packed_.end()) return packed->second.info;
  const FileTensor& home = home_of(name);
  return home.file->info(home.name);
}

const StoredNf4* SafetensorsDirectory::in_4_bits(std::string_view name) const {
  const auto packed = packed_.find(name);
  return packed == packed_.end() ? nullptr : &packed->second.matrix;
}

template <class T>
void SafetensorsDirectory::read_stored(std::string_view name, std::int64_t first_element,
                                       std::span<T> out) const {
  if (const StoredNf4* const matrix = in_4_bits(name)) return matrix->read(first_element, out);
  const FileTensor& home = home_of(name);
  home.file->read(home.name, first_element, out);
}

template <class T>
void SafetensorsDirectory::read(std::string_view name, std::int64_t first_element,
                                std::span<T> out) const {
  const auto extended = extended_.find(name);
  if (extended == extended_.end()) return read_stored(name, first_element, out);
  const Extended& matrix = extended->second;
  const std::int64_t count = std::ssize(out);
  if (first_element < 0 || count > matrix.info.elements - first_element) {
    return read_stored(name, first_element, out);  // which refuses it
  }
  const std::int64_t stored =
      std::clamp<std::int64_t>(matrix.stored_elements - first_element, 0, count);
  if (stored > 0) {
    read_stored(name, first_element, out.first(static_cast<std::size_t>(stored)));
  }
  for (std::int64_t i = stored; i < count; ++i) {
    const auto column = static_cast<std::size_t>((first_element + i) % std::ssize(matrix.row));
    out[static_cast<std::size_t>(i)] = converted<T>(matrix.row[column]);
  }
}

template void SafetensorsDirectory::read(std::string_view, std::int64_t, std::span<double>) const;
template void SafetensorsDirectory::read(std::string_view, std::int64_t, std::span<float>) const;
template void SafetensorsDirectory::read(std::string_view, std::int64_t, std::span<Bf16>) const;

void SafetensorsDirectory::append_rows(const std::string& name, std::int64_t rows,
                                       std::vector<double> row) {
  Extended matrix{.info = stored_info(name), .row = std::move(row)};
  matrix.stored_elements = matrix.info.elements;
  matrix.info.shape.front() += rows;
  matrix.info.elements += rows * std::ssize(matrix.row);
  extended_.emplace(name, std::move(matrix));
}

const FileTensor& SafetensorsDirectory::home_of(std::string_view name) const {
  const auto found = homes_.find(name);
  if (found == homes_.end()) {
    throw IoError(in_file(folder_) + "its weights have no tensor '" +
                  printable_name(shortened(name)) + "'");
  }
  return found->second;
}

}  // namespace strata
