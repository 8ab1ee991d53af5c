// Reads weights from safetensors files, a slice at a time, as any dtype that a caller wants. The
// training state loads its shards through SafetensorsDirectory, with several threads at once; a
// file needs no more memory than the slices being read. Whatever is wrong with a file throws
// IoError naming file and tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/file.h"
#include "strata/model/stored_nf4.h"

namespace strata {

/// Element types of tensors in safetensors files that strata reads.
enum class StoredType : std::uint8_t { kF64, kF32, kBF16, kF16, kI64, kI32, kI16 };
/// Returns the name of a type as it is written in the file: "F64", "BF16", ...
[[nodiscard]] std::string_view name_of(StoredType type);
/// Returns the bytes of one element.
[[nodiscard]] std::size_t size_of(StoredType type);
/// Returns "[257, 64]".
[[nodiscard]] std::string shape_text(const std::vector<std::int64_t>& shape);

/// One tensor of a file: row-major, little-endian.
struct StoredTensor {
  StoredType dtype = StoredType::kF32;
  std::vector<std::int64_t> shape;
  std::int64_t elements = 1;  ///< product of the shape
  std::uint64_t offset = 0;   ///< bytes from the beginning of the file
  std::uint64_t bytes = 0;
  std::string unsupported;  ///< the dtype, where it is none of StoredType: such data is not read
};

/// A safetensors file, open for reading: an 8-byte header length, a JSON header, the data. Opening
/// reads and verifies the header only; `read` copies slices, so that loading a model needs the
/// memory of one slice. Several threads may read at once. Every member throws IoError naming file
/// and tensor. The file must not change while it is open.
class SafetensorsFile {
 public:
  /// Opens a file of a model's folder (Links::kOfModel). Throws IoError if it is missing, torn, or
  /// its header and its size do not fit together: tensors must cover the data completely and
  /// without overlap, as the format demands.
  explicit SafetensorsFile(const std::filesystem::path& file);

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  /// Returns the names of all tensors, sorted.
  [[nodiscard]] std::vector<std::string> tensors() const;
  [[nodiscard]] bool contains(std::string_view name) const { return tensors_.contains(name); }
  /// Returns what the header says of a tensor, also where its dtype is none that is read.
  [[nodiscard]] const StoredTensor& entry(std::string_view name) const;
  /// Returns what the header says of a tensor. Throws IoError if there is none of this name, or if
  /// it has a dtype that strata does not read.
  [[nodiscard]] const StoredTensor& info(std::string_view name) const;
  /// Reads elements [first_element, first_element + out.size()) of the tensor, converted to T:
  /// double, float and Bf16 from floating-point tensors (rounded to nearest, ties to even; f64 to
  /// bf16 through f32), int32_t and int64_t from integer tensors. Throws IoError for a range that
  /// the tensor does not have, for a value that does not fit, and for floating-point tensors read
  /// as integers or the reverse.
  template <class T>
  void read(std::string_view name, std::int64_t first_element, std::span<T> out) const;
  /// Reads bytes of a tensor of any dtype from byte `begin` of it on. Throws IoError for a range
  /// that it does not have.
  void read_bytes(std::string_view name, std::int64_t begin, std::span<std::byte> out) const;

 private:
  template <class From, class To>
  void read_converted(std::string_view name, std::uint64_t offset, std::span<To> out) const;

  InputFile file_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
};

/// The weights of a Hugging Face model folder: `model.safetensors`, or shards named by
/// `model.safetensors.index.json`. It keeps all its files open and throws as SafetensorsFile does;
/// a shard that is missing or lacks a tensor that the index promises is found on opening. Tensors
/// of the text part of a model that also has others ("language_model.model.norm.weight") go by the
/// names that they have in a folder of the text part alone ("model.norm.weight"). A matrix in 4
/// bits is one tensor of the dtype and shape that it had.
class SafetensorsDirectory {
 public:
  explicit SafetensorsDirectory(const std::filesystem::path& folder);

  /// Returns the names of all tensors, sorted.
  [[nodiscard]] std::vector<std::string> tensors() const;
  [[nodiscard]] bool contains(std::string_view name) const { return homes_.contains(name); }
  /// Returns what the header says of a tensor. Throws IoError if there is none of this name.
  [[nodiscard]] const StoredTensor& info(std::string_view name) const;
  /// Reads as SafetensorsFile::read does.
  template <class T>
  void read(std::string_view name, std::int64_t first_element, std::span<T> out) const;
  /// Returns a matrix that is in 4 bits in the files, or null.
  [[nodiscard]] const StoredNf4* in_4_bits(std::string_view name) const;
  /// Lets a matrix end with `rows` more rows, each of which is `row`, for info() and read(); the
  /// file stays as it is. To be called before others read, and once for a tensor.
  void append_rows(const std::string& name, std::int64_t rows, std::vector<double> row);

 private:
  /// A matrix that has more rows here than in its file.
  struct Extended {
    StoredTensor info;                 ///< with all rows
    std::int64_t stored_elements = 0;  ///< those of the file
    std::vector<double> row;           ///< what the others hold
  };

  /// A matrix that is in 4 bits in its file.
  struct Packed {
    StoredTensor info;  ///< as what it is read
    StoredNf4 matrix;
  };

  void open_shards(const std::filesystem::path& index);
  void add(const std::string& stored, const SafetensorsFile& file);
  void join_matrices_in_4_bits();
  void add_in_4_bits(const std::string& name);
  [[nodiscard]] const FileTensor& home_of(std::string_view name) const;
  [[nodiscard]] const StoredTensor& stored_info(std::string_view name) const;
  template <class T>
  void read_stored(std::string_view name, std::int64_t first_element, std::span<T> out) const;

  std::filesystem::path folder_;
  std::map<std::string, SafetensorsFile> files_;          ///< by file name
  std::map<std::string, FileTensor, std::less<>> homes_;  ///< by the names that tensors go by
  std::map<std::string, Packed, std::less<>> packed_;
  std::map<std::string, Extended, std::less<>> extended_;
};

}  // namespace strata
