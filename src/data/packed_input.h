// A packed stream as decoders take it: in pieces, of which they may leave a rest. Each decoder has
// a source of its own, which refuses what it unpacks if the build has no library for it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/byte_stream.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"

namespace strata {

class PackedInput {
 public:
  PackedInput(std::unique_ptr<ByteStream> inner, std::string name)
      : inner_(std::move(inner)), name_(std::move(name)), buffer_(kPieceBytes) {}

  /// Returns what the decoder has not taken yet, or the next piece; empty at the end.
  std::span<char> rest() {
    if (begin_ == end_) {
      begin_ = 0;
      end_ = inner_->read(buffer_);
    }
    return std::span(buffer_).subspan(begin_, end_ - begin_);
  }
  void take(std::size_t bytes) { begin_ += bytes; }
  [[nodiscard]] std::size_t consumed() const { return inner_->consumed(); }

  [[noreturn]] void fail_as_cut() const {
    throw IoError(name_ +
                  ": ends within what was packed, so it was cut off. Copy or make it again");
  }
  [[noreturn]] void fail_as_damaged(const char* why) const {
    throw IoError(name_ + ": cannot be unpacked: " + why + ". Copy or make it again");
  }

 private:
  static constexpr std::size_t kPieceBytes = 256 * kKiB;

  std::unique_ptr<ByteStream> inner_;
  std::string name_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

/// Unpack what `inner` gives; messages call it `name`. Throw IoError if this build cannot.
[[nodiscard]] std::unique_ptr<ByteStream> unpack_gzip(std::unique_ptr<ByteStream> inner,
                                                      const std::string& name);
[[nodiscard]] std::unique_ptr<ByteStream> unpack_zstd(std::unique_ptr<ByteStream> inner,
                                                      const std::string& name);

}  // namespace strata
