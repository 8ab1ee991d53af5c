// The weights of a folder with low-rank adapters added to them, W + scale * B A, as they are read:
// what exports and generation make of a model and its adapters. The files stay as they are, and
// only A and B are held in memory.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/model/adapter_files.h"
#include "strata/model/safetensors.h"
#include "strata/model/spec.h"

namespace strata {

/// Reads slices of weights. Several threads may read at once. Throws IoError as
/// SafetensorsDirectory does.
class MergedWeights {
 public:
  /// Makes one that reads the weights as they are.
  explicit MergedWeights(SafetensorsDirectory weights);

  /// Adds the adapters of `spec`, whose A and B lie in `files`; holds them as f32. What the spec
  /// trains whole is read from `files` from then on, which it opens again. To be called before
  /// others read, once. Throws IoError that names a tensor that is missing, has another shape, is
  /// not finite (of A and B), or belongs to no adapter of the spec.
  void add(const AdapterFiles& files, const ModelSpec& spec);

  [[nodiscard]] const SafetensorsDirectory& files() const { return weights_; }
  /// Returns whether a tensor is other than in its file.
  [[nodiscard]] bool changes(std::string_view name) const {
    return products_.contains(name) || whole_.contains(name);
  }
  [[nodiscard]] bool changes_any() const { return !products_.empty(); }
  /// Reads as SafetensorsDirectory::read does, to double, float or Bf16. What has an adapter is
  /// summed in f32, or in f64 for double, and rounded once.
  template <class T>
  void read(std::string_view name, std::int64_t first_element, std::span<T> out) const;

 private:
  /// What is added to a matrix [rows, cols].
  struct Product {
    std::vector<float> a;  ///< [rank, cols]
    std::vector<float> b;  ///< [rows, rank]
    std::int64_t rank = 0;
    std::int64_t cols = 0;
    double scale = 1;

    /// Adds elements from `first` on to `sums`.
    template <class Sum>
    void add_to(std::int64_t first, std::span<Sum> sums) const;
  };

  SafetensorsDirectory weights_;
  std::map<std::string, Product, std::less<>> products_;
  /// The files that have tensors in the place of those of weights_.
  std::map<std::string, SafetensorsFile, std::less<>> whole_;
};

}  // namespace strata
