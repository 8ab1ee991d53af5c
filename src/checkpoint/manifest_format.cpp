// Ends the text of a manifest with its hash, and compares the two.

#include "checkpoint/manifest_format.h"

#include <cstddef>
#include <span>

#include "strata/base/error.h"
#include "strata/base/hex.h"
#include "strata/checkpoint/manifest.h"

namespace strata {
namespace {

// Every byte of the text is either hashed or one of these, or a digit of the hash.
constexpr std::string_view kBeforeHash = ",\n\"xxh3\": \"";
constexpr std::string_view kAfterHash = "\"\n}\n";
constexpr std::size_t kHashDigits = 16;

std::uint64_t hash_of(std::string_view text) {
  return xxh3(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace

std::optional<std::uint64_t> parse_hex(std::string_view digits) {
  if (digits.size() != kHashDigits) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : digits) {
    const bool decimal = c >= '0' && c <= '9';
    if (!decimal && !(c >= 'a' && c <= 'f')) return std::nullopt;
    value = value << 4 | static_cast<std::uint64_t>(decimal ? c - '0' : c - 'a' + 10);
  }
  return value;
}

std::string with_manifest_hash(std::string hashed) {
  const std::string hash = hex_digits(hash_of(hashed));
  hashed.append(kBeforeHash).append(hash).append(kAfterHash);
  return hashed;
}

void check_manifest_hash(std::string_view text) {
  constexpr std::size_t kEnd = kBeforeHash.size() + kHashDigits + kAfterHash.size();
  const std::size_t hashed = text.size() < kEnd ? 0 : text.size() - kEnd;
  const std::string_view end = text.substr(hashed);
  const bool complete =
      end.size() == kEnd && end.starts_with(kBeforeHash) && end.ends_with(kAfterHash);
  const auto written =
      complete ? parse_hex(end.substr(kBeforeHash.size(), kHashDigits)) : std::nullopt;
  if (!written) throw IoError("does not end with its xxh3, so it was not written to its end");
  if (const std::uint64_t found = hash_of(text.substr(0, hashed)); found != *written) {
    throw IoError("xxh3 is " + hex_digits(*written) + ", but its text has " + hex_digits(found) +
                  ": it is not what was written");
  }
}

}  // namespace strata
