// Reads the files of models without the program: what the tests of `export` and `import` compare.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "e2e/program.h"
#include "support/json.h"

namespace strata::test {

/// The files of a folder, by name.
inline std::map<std::string, std::string> contents_of(const std::string& folder) {
  std::map<std::string, std::string> contents;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    contents[entry.path().filename()] = read_file(entry.path());
  }
  return contents;
}

struct Tensor {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string data;
  bool operator==(const Tensor&) const = default;
};

inline std::map<std::string, Tensor> tensors_of(const std::string& file) {
  const std::string text = read_file(file);
  std::uint64_t header = 0;
  std::memcpy(&header, text.data(), sizeof(header));
  std::map<std::string, Tensor> tensors;
  const auto entries = parse_json<nlohmann::json>(text.substr(8, header));
  for (const auto& [name, entry] : entries.items()) {
    if (name == "__metadata__") continue;
    const std::size_t begin = entry["data_offsets"][0];
    const std::size_t end = entry["data_offsets"][1];
    tensors[name] = {entry["dtype"], entry["shape"], text.substr(8 + header + begin, end - begin)};
  }
  return tensors;
}

/// All tensors of a model's folder.
inline std::map<std::string, Tensor> model_tensors(const std::string& folder) {
  std::map<std::string, Tensor> all;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") all.merge(tensors_of(entry.path()));
  }
  return all;
}

template <class T>
std::vector<T> values_of(const std::string& data) {
  std::vector<T> values(data.size() / sizeof(T));
  std::memcpy(values.data(), data.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace strata::test
