// The bytes of a file or of standard input, unpacked as they come if gzip or zstd has packed them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata {

/// Stands for standard input among names of files.
inline constexpr std::string_view kStandardInput = "-";

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// Reads some bytes into `out`, which is not empty, and returns how many; 0 at the end. Throws
  /// IoError, which names the file, if it cannot be read, or what packed it was cut off or damaged.
  [[nodiscard]] virtual std::size_t read(std::span<char> out) = 0;
  /// Returns how many bytes of the file itself were read so far.
  [[nodiscard]] virtual std::size_t consumed() const = 0;
};

/// A stream of bytes that are made piece by piece.
class PieceStream : public ByteStream {
 public:
  [[nodiscard]] std::size_t read(std::span<char> out) final;

 private:
  /// Puts what comes next into `piece`, which is empty, perhaps nothing. Returns false at the end.
  [[nodiscard]] virtual bool make(std::string& piece) = 0;

  std::string piece_{};
  std::size_t given_ = 0;  ///< bytes of the piece
  bool ended_ = false;
};

/// A stream of which what comes next can be looked at.
class PeekStream final : public ByteStream {
 public:
  explicit PeekStream(std::unique_ptr<ByteStream> inner) : inner_(std::move(inner)) {}
  /// Returns at least `bytes` of what comes next, or all of a shorter rest.
  [[nodiscard]] std::string_view peek(std::size_t bytes);
  [[nodiscard]] std::size_t read(std::span<char> out) override;
  [[nodiscard]] std::size_t consumed() const override { return inner_->consumed(); }

 private:
  std::unique_ptr<ByteStream> inner_;
  std::vector<char> buffer_{};
  std::size_t begin_ = 0;  ///< of what was not read yet
};

/// Opens a file or, by kStandardInput, standard input. Its first bytes say whether it is packed;
/// a byte order mark of UTF-8 is left out. Throws IoError if it cannot be opened, and for a packing
/// that this build cannot unpack.
[[nodiscard]] std::unique_ptr<PeekStream> open_byte_stream(const std::string& name);
/// Returns what messages call it: the file's name, or "standard input".
[[nodiscard]] std::string shown_name(const std::string& name);

/// Returns whether a file begins like one that open_byte_stream() unpacks.
[[nodiscard]] bool is_packed(std::string_view beginning);

}  // namespace strata
