// Files of reference values that scripts/golden/make_goldens.py had PyTorch compute. Everything in
// them is taken as f64.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "strata/base/tensor.h"
#include "strata/model/safetensors.h"

namespace strata::test {

/// tests/golden/data: made by scripts/golden/make_goldens.py, which says what the files hold.
[[nodiscard]] std::filesystem::path golden_data();

/// A golden file whose tensors are taken as f64, integers included.
class GoldenFile {
 public:
  explicit GoldenFile(const std::filesystem::path& file) : file_(file) {}

  [[nodiscard]] std::vector<std::string> tensors() const { return file_.tensors(); }
  [[nodiscard]] bool contains(const std::string& name) const { return file_.contains(name); }
  [[nodiscard]] Shape shape(const std::string& name) const;
  [[nodiscard]] std::vector<double> values(const std::string& name) const;
  [[nodiscard]] std::vector<std::int32_t> integers(const std::string& name) const;
  /// The only element of a tensor.
  [[nodiscard]] double scalar(const std::string& name) const { return values(name).at(0); }

 private:
  SafetensorsFile file_;
};

/// ||value - reference|| / ||reference||, or ||value - reference|| if the reference is zero;
/// infinity if sizes differ.
[[nodiscard]] double distance(const std::vector<double>& value,
                              const std::vector<double>& reference);

}  // namespace strata::test
