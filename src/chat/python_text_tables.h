// Tables of what Python takes for names, digits and printable characters, from 0x80 on. The source
// of the same name is written by scripts/python_text_tables.py; unicode.h has what reads them.
#pragma once

#include <cstdint>
#include <span>

namespace strata::chat::python_text {

/// Code points from `first` to `last`, both included.
struct CodePointRange {
  std::uint32_t first;
  std::uint32_t last;
};

// Ranges in ascending order.
extern const std::span<const CodePointRange> kNameStarts;  ///< may begin an identifier
extern const std::span<const CodePointRange> kNameParts;   ///< may stand in an identifier
extern const std::span<const CodePointRange> kPrintable;   ///< str.isprintable()
extern const std::span<const CodePointRange> kDigits;      ///< str.isdigit()

}  // namespace strata::chat::python_text
