// A name is cut at the number of its layer; names, dtypes and shapes that are then equal belong to
// one line. Files are joined by their lines and by what their names are without numbers.

#include "commands/tensor_files.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/model/safetensors.h"

namespace strata {
namespace {

constexpr std::string_view kDigits = "0123456789";

/// A name without the number of its layer.
struct LayerName {
  std::string before;       ///< "model.layers.", or all of it
  std::int64_t layer = -1;  ///< -1: there is none
  std::string behind;
};

LayerName cut(const std::string& name) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t found = name.find(kLayers);
  if (found == name.npos) return {.before = name, .behind = {}};
  const std::size_t begin = found + kLayers.size();
  const std::size_t end = std::min(name.find_first_not_of(kDigits, begin), name.size());
  LayerName result{.before = name.substr(0, begin), .behind = name.substr(end)};
  const auto parsed = std::from_chars(name.data() + begin, name.data() + end, result.layer);
  if (begin == end || parsed.ec != std::errc{}) return {.before = name, .behind = {}};
  return result;
}

/// Tensors that differ in their layers alone.
struct TensorLine {
  LayerName name;  ///< of the first one
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  std::int64_t last = -1;
  std::int64_t count = 0;

  /// Returns what tensors of one line have in common.
  [[nodiscard]] std::string key() const {
    return (name.layer < 0 ? "-" : "+") + name.before + '\n' + name.behind + '\n' + dtype +
           shape_text(shape);
  }
  void add(const TensorLine& other) {
    first = std::min(first, other.first);
    last = std::max(last, other.last);
    count += other.count;
  }
  [[nodiscard]] std::string name_text() const {
    if (name.layer < 0) return printable_name(name.before);  // maybe the same in several files
    if (count == 1) return full(std::to_string(name.layer));
    return full("{" + std::to_string(first) + ".." + std::to_string(last) + "}");
  }

 private:
  [[nodiscard]] std::string full(const std::string& layer) const {
    return printable_name(name.before + layer + name.behind);
  }
};

/// Files with equal lines.
struct FileLine {
  std::string first;
  std::string last;
  std::size_t count = 1;
  std::uint64_t bytes = 0;  ///< of all
  std::vector<TensorLine> tensors;
};

FileLine line_of(const ListedFile& file) {
  FileLine line{.first = file.path, .last = file.path, .bytes = file.bytes, .tensors = {}};
  std::map<std::string, std::size_t> places;
  for (const ListedTensor& tensor : file.tensors) {
    TensorLine one{.name = cut(tensor.name), .dtype = tensor.dtype, .shape = tensor.shape};
    one.first = one.last = one.name.layer;
    one.count = 1;
    const auto [place, is_new] = places.try_emplace(one.key(), line.tensors.size());
    if (is_new) {
      line.tensors.push_back(std::move(one));
    } else {
      line.tensors[place->second].add(one);
    }
  }
  return line;
}

/// Returns a path as parts that are compared one by one, numbers by their value: layers.2 comes
/// before layers.10.
std::vector<std::pair<std::string, std::uint64_t>> parts_of(const std::string& path) {
  std::vector<std::pair<std::string, std::uint64_t>> parts;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t digits = std::min(path.find_first_of(kDigits, at), path.size());
    const std::size_t end = std::min(path.find_first_not_of(kDigits, digits), path.size());
    std::uint64_t number = 0;  // stays 0 where it is too large
    (void)std::from_chars(path.data() + digits, path.data() + end, number);
    parts.emplace_back(path.substr(at, digits - at), number);
    at = end;
  }
  return parts;
}

bool joins(const FileLine& a, const FileLine& b) {
  if (a.tensors.empty() || a.tensors.size() != b.tensors.size()) return false;
  const auto a_parts = parts_of(a.first);
  const auto b_parts = parts_of(b.first);
  return std::ranges::equal(a_parts, b_parts, {}, &std::pair<std::string, std::uint64_t>::first,
                            &std::pair<std::string, std::uint64_t>::first) &&
         std::ranges::equal(a.tensors, b.tensors, {}, &TensorLine::key, &TensorLine::key);
}

void append(std::string& text, const FileLine& line) {
  text += "  " + printable_name(line.first);
  if (line.count > 1) {
    text += " to " + printable_name(line.last) + ", " +
            format_count(static_cast<std::int64_t>(line.count)) + " files, together";
  }
  text += "  " + format_bytes(static_cast<std::size_t>(line.bytes)) + "\n";
  std::size_t width = 0;
  for (const TensorLine& tensor : line.tensors) {
    width = std::max(width, tensor.name_text().size());
  }
  for (const TensorLine& tensor : line.tensors) {
    text += fmt::format("    {:<{}}  {:<4}  {}\n", tensor.name_text(), width, tensor.dtype,
                        shape_text(tensor.shape));
  }
}

}  // namespace

ListedFile list_file(const std::filesystem::path& folder, const std::string& path,
                     std::uint64_t bytes) {
  ListedFile result{.path = path, .bytes = bytes, .tensors = {}};
  if (!path.ends_with(".safetensors")) return result;
  const SafetensorsFile file(folder / path);
  std::vector<std::string> names = file.tensors();
  std::ranges::stable_sort(names, {},
                           [&](const std::string& name) { return file.entry(name).offset; });
  for (std::string& name : names) {
    const StoredTensor& tensor = file.entry(name);
    std::string dtype =
        tensor.unsupported.empty() ? std::string(name_of(tensor.dtype)) : tensor.unsupported;
    result.tensors.push_back({std::move(name), std::move(dtype), tensor.shape});
  }
  return result;
}

std::string grouped_text(std::vector<ListedFile> files) {
  std::ranges::stable_sort(files, {}, [](const ListedFile& file) { return parts_of(file.path); });
  std::vector<FileLine> lines;
  for (const ListedFile& file : files) {
    FileLine line = line_of(file);
    if (lines.empty() || !joins(lines.back(), line)) {
      lines.push_back(std::move(line));
      continue;
    }
    FileLine& before = lines.back();
    before.last = std::move(line.last);
    before.bytes += line.bytes;
    ++before.count;
    for (std::size_t i = 0; i < line.tensors.size(); ++i) before.tensors[i].add(line.tensors[i]);
  }
  std::string text;
  for (const FileLine& line : lines) append(text, line);
  return text;
}

std::string full_text(std::span<const ListedFile> files) {
  std::string text;
  for (const ListedFile& file : files) {
    FileLine line{.first = file.path, .last = file.path, .bytes = file.bytes, .tensors = {}};
    for (const ListedTensor& tensor : file.tensors) {
      line.tensors.push_back({.name = {.before = tensor.name, .behind = {}},
                              .dtype = tensor.dtype,
                              .shape = tensor.shape,
                              .count = 1});
    }
    append(text, line);
  }
  return text;
}

}  // namespace strata
