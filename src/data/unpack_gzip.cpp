// Unpacks gzip with zlib. A file may hold several parts, one after the other, as `cat` makes it.

#include "data/packed_input.h"

#if STRATA_ZLIB
#include <zlib.h>
#endif

#include <algorithm>

namespace strata {

#if STRATA_ZLIB

namespace {

class GzipStream final : public ByteStream {
 public:
  GzipStream(std::unique_ptr<ByteStream> inner, std::string name)
      : input_(std::move(inner), std::move(name)) {
    constexpr int kGzipWindow = 15 + 16;  // the largest window, and gzip's frame
    if (inflateInit2(&state_, kGzipWindow) != Z_OK) throw OutOfMemory("zlib");
  }
  ~GzipStream() override { inflateEnd(&state_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  std::size_t read(std::span<char> out) override {
    state_.next_out = reinterpret_cast<Bytef*>(out.data());
    state_.avail_out = static_cast<uInt>(std::min<std::size_t>(out.size(), kGiB));
    const uInt wanted = state_.avail_out;
    while (state_.avail_out == wanted) {
      const std::span<char> piece = input_.rest();
      if (piece.empty()) {
        if (!between_parts_) input_.fail_as_cut();
        return 0;
      }
      if (between_parts_ && inflateReset(&state_) != Z_OK) input_.fail_as_damaged("its state");
      between_parts_ = false;
      inflate_some(piece);
    }
    return wanted - state_.avail_out;
  }
  std::size_t consumed() const override { return input_.consumed(); }

 private:
  void inflate_some(std::span<char> piece) {
    state_.next_in = reinterpret_cast<Bytef*>(piece.data());
    state_.avail_in = static_cast<uInt>(piece.size());
    const int result = inflate(&state_, Z_NO_FLUSH);
    input_.take(piece.size() - state_.avail_in);
    between_parts_ = result == Z_STREAM_END;
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      input_.fail_as_damaged(state_.msg != nullptr ? state_.msg : "its data are damaged");
    }
  }

  PackedInput input_;
  z_stream state_{};
  bool between_parts_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> unpack_gzip(std::unique_ptr<ByteStream> inner,
                                        const std::string& name) {
  return std::make_unique<GzipStream>(std::move(inner), name);
}

#else

std::unique_ptr<ByteStream> unpack_gzip(std::unique_ptr<ByteStream> /*inner*/,
                                        const std::string& name) {
  throw IoError(
      name +
      ": this strata was built without zlib. Unpack it first, with gunzip, or build with zlib");
}

#endif

}  // namespace strata
