// What the text of a manifest is beyond its members: the number of its format, and a hash at its
// end, which finds what a disk or a transfer did to it.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace strata {

inline constexpr std::int64_t kManifestFormat = 2;
inline constexpr std::int64_t kManifestFormatWithoutData = 1;

/// Returns what hex_digits() wrote, or nothing of another text.
[[nodiscard]] std::optional<std::uint64_t> parse_hex(std::string_view digits);

/// Returns a manifest whose text is `hashed` up to the last member, with the hash of that and the
/// end.
[[nodiscard]] std::string with_manifest_hash(std::string hashed);
/// Throws IoError without a file's name unless `text` ends with the hash of what stands before.
void check_manifest_hash(std::string_view text);

}  // namespace strata
