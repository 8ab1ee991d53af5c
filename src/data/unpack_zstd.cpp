// Unpacks zstd with libzstd. A file may hold several parts, one after the other, as `cat` makes it.

#include "data/packed_input.h"

#if STRATA_ZSTD
#include <zstd.h>
#endif

#include <algorithm>

namespace strata {

#if STRATA_ZSTD

namespace {

class ZstdStream final : public ByteStream {
 public:
  ZstdStream(std::unique_ptr<ByteStream> inner, std::string name)
      : input_(std::move(inner), std::move(name)), state_(ZSTD_createDStream()) {
    if (!state_) throw OutOfMemory("libzstd");
  }

  std::size_t read(std::span<char> out) override {
    ZSTD_outBuffer made{out.data(), out.size(), 0};
    while (made.pos == 0) {
      const std::span<char> piece = input_.rest();
      if (piece.empty() && !within_part_) return 0;
      ZSTD_inBuffer given{piece.data(), piece.size(), 0};
      const std::size_t left = ZSTD_decompressStream(state_.get(), &made, &given);
      if (ZSTD_isError(left) != 0) input_.fail_as_damaged(ZSTD_getErrorName(left));
      if (piece.empty() && made.pos == 0) input_.fail_as_cut();
      input_.take(given.pos);
      within_part_ = left != 0;
    }
    return made.pos;
  }
  std::size_t consumed() const override { return input_.consumed(); }

 private:
  struct Free {
    void operator()(ZSTD_DStream* state) const { ZSTD_freeDStream(state); }
  };
  PackedInput input_;
  std::unique_ptr<ZSTD_DStream, Free> state_;
  bool within_part_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> unpack_zstd(std::unique_ptr<ByteStream> inner,
                                        const std::string& name) {
  return std::make_unique<ZstdStream>(std::move(inner), name);
}

#else

std::unique_ptr<ByteStream> unpack_zstd(std::unique_ptr<ByteStream> /*inner*/,
                                        const std::string& name) {
  throw IoError(name +
                ": this strata was built without libzstd. Unpack it first, with unzstd, or build "
                "with libzstd");
}

#endif

}  // namespace strata
