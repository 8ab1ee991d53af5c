// The container of llama.cpp's models, GGUF version 3: typed keys, a list of tensors, and the data
// of the tensors, each at a multiple of 32 bytes. Nothing here knows what a model is. The format is
// described in the documentation of ggml. Everything is little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

/// What a file begins with.
inline constexpr std::string_view kGgufMagic = "GGUF";

/// The element types of tensors that strata writes, by their numbers in the file.
enum class GgufType : std::uint32_t {
  kF32 = 0,
  kQ80 = 8,  ///< blocks of 32 elements along a row: an f16 scale and 32 signed bytes
  kBF16 = 30,
};

/// The elements of a block of kQ80.
inline constexpr std::int64_t kQ8Block = 32;

/// Returns the bytes of consecutive elements. Blocks are whole: with kQ80, `elements` is a
/// multiple of kQ8Block.
[[nodiscard]] std::uint64_t gguf_bytes(GgufType type, std::int64_t elements);

/// Writes f32 values to `out`, which has gguf_bytes() bytes: bf16 is rounded to nearest, ties to
/// even. The scale of a block is max|x| / 127, and its bytes are x / scale rounded to nearest, ties
/// away from zero, as ggml's reference does it. Throws NumericalError for a block whose scale is
/// more than f16 can hold.
void store_gguf(std::span<const float> values, GgufType type, std::span<std::byte> out);

/// The keys of a file, in the order in which they were added.
class GgufKeys {
 public:
  void add_flag(std::string_view key, bool value);
  /// Adds an unsigned number of 32 bits. Throws std::logic_error if it does not fit.
  void add_count(std::string_view key, std::int64_t value);
  void add_number(std::string_view key, double value);  ///< as f32
  void add_text(std::string_view key, std::string_view value);
  void add_texts(std::string_view key, std::span<const std::string> values);
  void add_numbers(std::string_view key, std::span<const float> values);
  void add_integers(std::string_view key, std::span<const std::int32_t> values);
  /// Adds the keys of others behind its own.
  void append(const GgufKeys& others);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// Returns the keys as they stand in the file.
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, std::uint32_t type);
  void begin_list(std::string_view key, std::uint32_t type, std::size_t size);

  std::string bytes_;
  std::uint64_t count_ = 0;
};

/// A tensor of a file.
struct GgufTensor {
  std::string name;
  GgufType type = GgufType::kF32;
  std::vector<std::int64_t> shape;  ///< row-major, the outermost first; the file has it reversed
  /// Returns the bytes of its data, without what aligns the next one.
  [[nodiscard]] std::uint64_t bytes() const;
};

/// What a file begins with, and where the data of its tensors goes.
struct GgufHeader {
  std::string bytes;                   ///< with the zeros in front of the first tensor
  std::vector<std::uint64_t> offsets;  ///< of each tensor, from the beginning of the file
  std::uint64_t file_bytes = 0;        ///< what no tensor covers behind the header is zeros
};
[[nodiscard]] GgufHeader gguf_header(const GgufKeys& keys, std::span<const GgufTensor> tensors);

}  // namespace strata
