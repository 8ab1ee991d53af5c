// Writes the beginning of safetensors files. Offsets in it count from its end, so it may be made
// when all tensors are known and before any is written.

#include "checkpoint/safetensors_header.h"

#include <bit>
#include <cstdint>
#include <stdexcept>

#include "strata/base/bytes.h"
#include "strata/base/json.h"
#include "strata/checkpoint/files.h"

namespace strata {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

std::string_view stored_name(DType dtype) {
  switch (dtype) {
    case DType::kF64: return "F64";
    case DType::kF32: return "F32";
    case DType::kBF16: return "BF16";
    case DType::kI16: return "I16";
    case DType::kU8: return "U8";
    default: throw std::logic_error("checkpoints hold no " + std::string(name_of(dtype)));
  }
}

std::string safetensors_header(const nlohmann::ordered_json& tensors) {
  constexpr std::size_t kLengthBytes = 8;
  const std::string text = json_text(tensors);
  const std::size_t bytes = round_up(kLengthBytes + text.size(), kFileAlignment);
  std::string header;
  std::uint64_t length = bytes - kLengthBytes;
  for (std::size_t i = 0; i < kLengthBytes; ++i, length >>= 8) {
    header += static_cast<char>(length & 0xff);
  }
  header += text;
  header.resize(bytes, ' ');
  return header;
}

}  // namespace strata
