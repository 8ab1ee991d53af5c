// What CUDA kernels ask of a multiprocessor, beside what each architecture has. It needs neither a
// GPU nor a compiler for one: tiles and rings are worked out by plain functions, which the kernels
// use too. The kernels of compute capability 9.0 check their own when they are compiled, and the
// assembler refuses static shared memory above 48 KiB and launch bounds that no multiprocessor has.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "kernels/cuda/attention/portable/flash_tiles.h"
#include "kernels/cuda/products/fused_tiles.h"
#include "kernels/cuda/products/invariant_tiles.h"
#include "kernels/cuda/rows/row_rings.h"
#include "kernels/cuda/rows/sampling_limits.h"
#include "src/device/cuda/architectures.h"
#include "strata/ops/attention.h"
#include "support/catch.h"
#include "support/places.h"

namespace strata::test {

using cuda::BlockLimits;
using cuda::kBlockLimits;
using cuda::RingDevice;

namespace {

RingDevice device_of(const BlockLimits& limits) {
  return {.shared_bytes = limits.shared_bytes, .clusters = limits.clusters};
}

/// The bytes of a row of which every thread of rmsnorm_backward owns one piece.
constexpr std::int64_t kNormPieceBytes = 16 * cuda::norm_backward::kThreads;

template <class R>
bool fits(const BlockLimits& limits) {
  return R::kRingBytes + cuda::cross_entropy::kOtherBytes <= limits.shared_bytes &&
         R::kThreads * R::kBlocks <= limits.multiprocessor_threads;
}

}  // namespace

TEST_CASE("keys that are left out of a segment as its contract allows are whole tiles") {
  for (const int head_dim : {64, 128}) {
    CHECK(AttentionForward::kTileKeys % cuda::FlashForwardTile::keys_per_stage(head_dim) == 0);
  }
}

TEST_CASE("the tiles of portable attention fit every architecture") {
  // Beside the tiles single queries have a maximum and a sum of each head of each warp, and of all
  // of them. Results of warps take the place of their rings.
  constexpr std::size_t kStatistics =
      sizeof(float) * 2 * (cuda::DecodeTile::kWarps + 1) * cuda::DecodeTile::kHeads;
  for (const BlockLimits& limits : kBlockLimits) {
    for (const int head_dim : {64, 128, 256}) {
      INFO(limits.capability << ", head dim " << head_dim);
      CHECK(cuda::FlashForwardTile::shared_bytes(head_dim) <= limits.shared_bytes);
      CHECK(cuda::FlashQueryGradientTile::shared_bytes(head_dim) <= limits.shared_bytes);
      if (head_dim != cuda::FlashWideKeyGradientTile::kHeadDim) {
        CHECK(cuda::FlashKeyGradientTile::shared_bytes(head_dim) <= limits.shared_bytes);
      }
      using Bf16 = cuda::DecodeBf16Tile;
      using Int8 = cuda::DecodeInt8Tile;
      for (const std::size_t rings : {Bf16::shared_bytes(head_dim, Bf16::few_stages(head_dim)),
                                      Int8::shared_bytes(head_dim, Int8::few_stages(head_dim))}) {
        CHECK(rings + kStatistics <= limits.shared_bytes);
        CHECK(cuda::DecodeTile::result_bytes(head_dim) <= rings);
      }
    }
    CHECK(cuda::FlashWideKeyGradientTile::kSharedBytes <= limits.shared_bytes);
  }
  CHECK(cuda::FlashQueryGradientTile::shared_bytes(128) == 96 * 1024);  // 3 KiB below the least
  CHECK(cuda::FlashQueryGradientTile::shared_bytes(256) == 96 * 1024);
  CHECK(cuda::FlashForwardTile::shared_bytes(256) == 96 * 1024);
}

TEST_CASE("the rings of batch-invariant products fit every architecture") {
  for (const BlockLimits& limits : kBlockLimits) {
    for (int rows = 8; rows <= cuda::InvariantTile::kMostRows; rows *= 2) {
      INFO(limits.capability << ", rows " << rows);
      CHECK(cuda::InvariantTile::shared_bytes(rows) <= limits.shared_bytes);
    }
  }
}

TEST_CASE("linear layers of a single stream are fused on every architecture") {
  using Tile = cuda::FusedTile;
  for (const BlockLimits& limits : kBlockLimits) {
    for (const std::int64_t k : {2048, 4096, 11008, 14336}) {
      for (const std::int64_t blocks : {100, 1000}) {
        const int stages = Tile::stages(1, k, blocks, {limits.shared_bytes, 108});
        INFO(limits.capability << ", k " << k << ", blocks " << blocks);
        CHECK(stages > 0);
        CHECK(Tile::shared_bytes(stages, 1, k) + Tile::kStaticBytes <= limits.shared_bytes);
      }
    }
  }
  constexpr cuda::FusedDevice kNewest{227 * 1024, 132};
  CHECK(Tile::stages(1, 4096, 688, kNewest) == 6);
  CHECK(Tile::places(6, 1, 4096, kNewest) == 264);
  CHECK(Tile::places(6, 1, 28672, kNewest) == 132);
  CHECK(Tile::stages(1, 13824, 160, kNewest) == 5);  // two on a multiprocessor, not one after one
  CHECK(Tile::stages(1, 11008, 128, kNewest) == 6);
  CHECK(Tile::stages(1, 28672, 256, kNewest) == 6);  // the 70B's, of which two never fit
  CHECK(Tile::stages(1, 28672, 256, {99 * 1024, 132}) == 0);
  CHECK(Tile::stages(4, 11008, 128, kNewest) == 0);
}

TEST_CASE("cross-entropy keeps rows only where its rings fit") {
  using namespace cuda::cross_entropy;
  for (const BlockLimits& limits : kBlockLimits) {
    INFO(limits.capability);
    const RingDevice device = device_of(limits);
    CHECK((!has_ring<OneBlock>(device) || fits<OneBlock>(limits)));
    CHECK((!has_ring<TwoBlocks>(device) || fits<TwoBlocks>(limits)));
    for (const std::int64_t vocabulary : {1, 257, 32000, 50257, 128256, 262144, 1000000}) {
      for (const std::int64_t bytes : {2 * vocabulary, 4 * vocabulary}) {
        const unsigned one = blocks_to_keep<OneBlock>(bytes, device);
        CHECK((one == 0 || fits<OneBlock>(limits)));
        CHECK((one <= 1 || limits.clusters));
        CHECK((blocks_to_keep<TwoBlocks>(bytes, device) == 0 || fits<TwoBlocks>(limits)));
      }
    }
  }
  const auto keeps = [](std::size_t kib) {
    return blocks_to_keep<OneBlock>(64000, {.shared_bytes = kib * 1024, .clusters = true}) > 0;
  };
  CHECK(keeps(227));
  CHECK(!keeps(163));
  CHECK(!has_ring<TwoBlocks>({.shared_bytes = 99 * 1024, .clusters = true}));
}

TEST_CASE("the backward of norms has a ring only where it fits") {
  using namespace cuda::norm_backward;
  for (const BlockLimits& limits : kBlockLimits) {
    for (int pieces = 1; pieces <= kMostPieces; ++pieces) {
      for (const std::int64_t tensors : {2, 3}) {
        const auto row_bytes = static_cast<std::size_t>(tensors * pieces * kNormPieceBytes);
        const auto bytes = ring_bytes(pieces, row_bytes, device_of(limits));
        INFO(limits.capability << ", " << pieces << " pieces, " << tensors << " tensors");
        CHECK((!bytes || *bytes + kStaticBytes <= limits.shared_bytes));
        // Where it is left out, it would not have fitted.
        const auto wanted = static_cast<std::size_t>(stages_with(pieces)) * row_bytes;
        CHECK((bytes || wanted + kStaticBytes > limits.shared_bytes));
      }
    }
  }
}

TEST_CASE("the bits of seen tokens fit every architecture") {
  using namespace cuda::sampling;
  for (const BlockLimits& limits : kBlockLimits) {
    INFO(limits.capability);
    CHECK(seen_bytes(kMostTokens) + kStaticBytes <= limits.shared_bytes);
    CHECK(kThreads <= limits.multiprocessor_threads);
  }
  CHECK(seen_bytes(kMostTokens) == 64 * 1024);
  CHECK(seen_bytes(33) == 8);
}

TEST_CASE("every kernel file with dynamic shared memory is one whose bytes are checked") {
  // Those above and of compute capability 9.0, norm.cu, whose bytes are those of a row, and
  // head_norm_backward.cu, whose are those of a few heads: the launcher refuses what a device does
  // not have. fp8_columns_kept.cu asks the device first, and swiglu.cu takes what all have.
  const std::set<std::string> checked{"flash_forward.cu",
                                      "flash_backward.cu",
                                      "flash_key_gradients.cu",
                                      "flash_wide_key_gradients.cu",
                                      "fp8_columns_kept.cu",
                                      "cross_entropy.cu",
                                      "norm_backward.cu",
                                      "norm.cu",
                                      "head_norm_backward.cu",
                                      "hopper_forward.cu",
                                      "hopper_backward.cu",
                                      "sampling.cu",
                                      "decode_attention.cu",
                                      "invariant_matmul.cu",
                                      "decode_int8_attention.cu",
                                      "fused_linear.cu",
                                      "hopper_key_gradients.cu",
                                      "hopper_wide_key_gradients.cu",
                                      "swiglu.cu"};
  std::set<std::string> found;
  const std::filesystem::path folder = source_folder() + "/kernels/cuda";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (text.find("extern __shared__") != std::string::npos) {
      found.insert(entry.path().filename().string());
    }
  }
  CHECK(found == checked);
}

}  // namespace strata::test
