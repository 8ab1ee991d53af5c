// A matrix that the files of a model hold in 4 bits, as bitsandbytes stores it: its codes under its
// own name, and beside them, as tensors of their own, the scales and what these stand for.
// SafetensorsDirectory finds such matrices and reads them as numbers; whoever keeps weights in the
// same form takes the codes and scales as they are. Whatever is wrong with a file throws IoError
// naming file and tensor.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/ops/nf4_format.h"

namespace strata {

class SafetensorsFile;
enum class StoredType : std::uint8_t;

/// A tensor of a file, which outlives it.
struct FileTensor {
  const SafetensorsFile* file = nullptr;
  std::string name;  ///< there
};

/// What DequantizeNf4 reads of a matrix of n elements.
struct Nf4Parts {
  std::span<std::uint8_t> codes;   ///< [n / 2]
  std::span<std::uint8_t> scales;  ///< [n / kNf4Block]
  std::span<float> groups;         ///< [ceil(n / (kNf4Block kNf4Group))]
  std::span<float> tables;         ///< [kNf4Tables]
};

/// An element is level[code] times the scale of its block, in f32, rounded to the dtype that the
/// matrix had. Scales are f32, or, with double quantisation, codes of 8 bits as in DequantizeNf4.
/// Blocks and groups may have other sizes than there. Several threads may read at once.
class StoredNf4 {
 public:
  /// Tensors by what their names have behind that of the matrix and a dot.
  using Parts = std::map<std::string_view, FileTensor>;
  /// What the names of parts end with; the first one is that of every such matrix.
  static constexpr std::string_view kParts[] = {"quant_state.bitsandbytes__nf4", "absmax",
                                                "quant_map", "nested_absmax", "nested_quant_map"};

  /// Reads and verifies everything but codes and scales.
  StoredNf4(FileTensor codes, const Parts& parts);

  [[nodiscard]] const std::vector<std::int64_t>& shape() const { return shape_; }
  [[nodiscard]] std::int64_t elements() const { return shape_[0] * shape_[1]; }
  /// Returns the dtype that the matrix had: BF16, F16 or F32.
  [[nodiscard]] StoredType dtype() const { return dtype_; }
  /// Reads elements from `first_element` on as SafetensorsFile::read does, to double, float or
  /// Bf16.
  template <class T>
  void read(std::int64_t first_element, std::span<T> out) const;

  /// Returns whether blocks and groups are those of DequantizeNf4, which can then decode the
  /// matrix from its parts.
  [[nodiscard]] bool has_parts() const;
  /// Reads all of them.
  void read_parts(const Nf4Parts& parts) const;

 private:
  /// Return the scales of blocks, or of groups of scales, from `begin` to `end`.
  [[nodiscard]] std::vector<float> scales(std::int64_t begin, std::int64_t end) const;
  [[nodiscard]] std::vector<float> groups(std::int64_t begin, std::int64_t end) const;
  [[nodiscard]] bool is_double() const { return groups_.file != nullptr; }

  FileTensor codes_;
  FileTensor scales_;
  FileTensor groups_;  ///< without a file where scales are f32
  std::vector<std::int64_t> shape_;
  StoredType dtype_{};
  std::int64_t block_ = 0;  ///< elements that share a scale
  std::int64_t group_ = 0;  ///< scales that share theirs
  float offset_ = 0;
  Nf4Values values_;  ///< those of scales as the file has them
};

}  // namespace strata
