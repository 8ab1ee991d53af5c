// Parsing and verification of safetensors headers, and the beginnings of messages that all readers
// of them share. Only the files of safetensors include it, so that nobody else sees the JSON
// library.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "strata/model/safetensors.h"

namespace strata {

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

/// The end of messages about files that are not what was written.
inline constexpr const char* kDamagedFile = "; the file is damaged or incomplete: fetch it again";

/// These return the beginnings of messages: "FILE: " and "FILE: tensor 'NAME': ".
[[nodiscard]] std::string in_file(const std::filesystem::path& file);
[[nodiscard]] std::string in_tensor(const std::filesystem::path& file, std::string_view name);

/// Throws IoError unless a tensor of so many elements, or bytes, has those from `first` on.
void require_range(const std::filesystem::path& file, std::string_view name, std::int64_t elements,
                   std::int64_t first, std::size_t count);

/// Parses `text`. Throws IoError naming `file` unless it is a JSON object in UTF-8, without a mark
/// of its encoding, whose objects have each key once.
[[nodiscard]] nlohmann::json parse_json_object(const std::filesystem::path& file,
                                               std::string_view text);

/// Returns the tensors of a safetensors header, verified against the data that lies in bytes
/// [data_begin, data_end) of the file. Throws IoError naming file and tensor.
[[nodiscard]] StoredTensors parse_safetensors_header(const std::filesystem::path& file,
                                                     std::string_view text,
                                                     std::uint64_t data_begin,
                                                     std::uint64_t data_end);

}  // namespace strata
