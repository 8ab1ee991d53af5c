// Reads files and standard input for tokenize() and the training of tokenizers, which see the same
// bytes whether they were packed or not. All streams promise the same: bytes in their order, and an
// error that names the file.

#include "data/byte_stream.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "data/file_kind.h"
#include "data/packed_input.h"
#include "strata/base/error.h"
#include "strata/base/file.h"

namespace strata {
namespace {

constexpr std::string_view kGzipMagic("\x1f\x8b", 2);
constexpr std::string_view kZstdMagic("\x28\xb5\x2f\xfd", 4);

class FileStream final : public ByteStream {
 public:
  explicit FileStream(const std::string& name) : file_(name) {}
  std::size_t read(std::span<char> out) override {
    const std::size_t bytes = file_.read_some(at_, std::as_writable_bytes(out));
    at_ += bytes;
    return bytes;
  }
  std::size_t consumed() const override { return at_; }

 private:
  InputFile file_;
  std::size_t at_ = 0;
};

class StandardInput final : public ByteStream {
 public:
  std::size_t read(std::span<char> out) override {
    ssize_t bytes = 0;
    do {
      bytes = ::read(STDIN_FILENO, out.data(), out.size());
    } while (bytes < 0 && errno == EINTR);
    if (bytes < 0) {
      throw IoError(std::string("standard input: cannot be read: ") + std::strerror(errno));
    }
    at_ += static_cast<std::size_t>(bytes);
    return static_cast<std::size_t>(bytes);
  }
  std::size_t consumed() const override { return at_; }

 private:
  std::size_t at_ = 0;
};

}  // namespace

std::string_view PeekStream::peek(std::size_t bytes) {
  while (buffer_.size() - begin_ < bytes) {
    const std::size_t before = buffer_.size();
    buffer_.resize(before + bytes);
    const std::size_t got = inner_->read(std::span(buffer_).subspan(before));
    buffer_.resize(before + got);
    if (got == 0) break;
  }
  return std::string_view(buffer_.data(), buffer_.size()).substr(begin_);
}

std::size_t PieceStream::read(std::span<char> out) {
  while (given_ == piece_.size() && !ended_) {
    piece_.clear();
    given_ = 0;
    ended_ = !make(piece_);
  }
  const std::size_t bytes = std::min(out.size(), piece_.size() - given_);
  std::copy_n(piece_.begin() + static_cast<std::ptrdiff_t>(given_), bytes, out.begin());
  given_ += bytes;
  return bytes;
}

std::size_t PeekStream::read(std::span<char> out) {
  if (begin_ == buffer_.size()) return inner_->read(out);
  const std::size_t bytes = std::min(out.size(), buffer_.size() - begin_);
  std::copy_n(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_), bytes, out.begin());
  begin_ += bytes;
  return bytes;
}

std::string shown_name(const std::string& name) {
  return name == kStandardInput ? "standard input" : name;
}

bool is_packed(std::string_view beginning) {
  return beginning.starts_with(kGzipMagic) || beginning.starts_with(kZstdMagic);
}

namespace {

/// Returns the stream that is in a file, or in what packed it.
std::unique_ptr<PeekStream> unpacked_stream(const std::string& name) {
  std::unique_ptr<ByteStream> raw;
  if (name == kStandardInput) {
    raw = std::make_unique<StandardInput>();
  } else {
    raw = std::make_unique<FileStream>(name);
  }
  auto stream = std::make_unique<PeekStream>(std::move(raw));
  const std::string_view beginning = stream->peek(kZstdMagic.size());
  if (beginning.starts_with(kGzipMagic)) {
    return std::make_unique<PeekStream>(unpack_gzip(std::move(stream), shown_name(name)));
  }
  if (beginning.starts_with(kZstdMagic)) {
    return std::make_unique<PeekStream>(unpack_zstd(std::move(stream), shown_name(name)));
  }
  return stream;
}

}  // namespace

std::unique_ptr<PeekStream> open_byte_stream(const std::string& name) {
  auto stream = unpacked_stream(name);
  std::array<char, kByteOrderMark.size()> mark{};
  if (stream->peek(mark.size()).starts_with(kByteOrderMark)) (void)stream->read(mark);
  return stream;
}

}  // namespace strata
