#!/usr/bin/env python3
"""Writes src/tokenizer/unicode_tables.cpp: categories and the normal form C of all code points.

  pip install unicodedata2==16.0.0 tokenizers==0.23.3
  python3 scripts/unicode_tables.py src/tokenizer/unicode_tables.cpp

The categories are those of Unicode 16, which the regular expressions of `tokenizers` and `tiktoken` have. The normal
form of `tokenizers` has an older Unicode: what it does not know yet is found by asking it, and is left out. Unicode
promises that nothing of this changes for characters that are assigned.
"""

import sys
from itertools import groupby
from pathlib import Path

import unicodedata2
from tokenizers import normalizers

CODE_POINTS = 0x110000
BLOCK = 128
SPACES = {9, 10, 11, 12, 13, 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
UPPER, LOWER, LETTER, MARK, NUMBER, PUNCTUATION, SYMBOL, SPACE = (1 << bit for bit in range(8))
OF_CATEGORY = {"Lu": UPPER | LETTER, "Lt": UPPER | LETTER, "Ll": LOWER | LETTER}
OF_FIRST_LETTER = {"L": LETTER, "M": MARK, "N": NUMBER, "P": PUNCTUATION, "S": SYMBOL}
MAY_CHANGE = 0x80
HANGUL = range(0xAC00, 0xD7A4)
JAMO_THAT_COMPOSE = {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}


def scalars():
    return (c for c in range(CODE_POINTS) if not 0xD800 <= c < 0xE000)


def nfc(text):
    return unicodedata2.normalize("NFC", text)


def known(text):
    """Whether the normal form of `tokenizers` treats a text as Unicode 16 does."""
    return normalizers.NFC().normalize_str(text) == nfc(text)


def categories():
    values = bytearray(CODE_POINTS)
    for c in scalars():
        category = unicodedata2.category(chr(c))
        values[c] = OF_CATEGORY.get(category, OF_FIRST_LETTER.get(category[0], 0)) | (SPACE if c in SPACES else 0)
    return values


def decompositions():
    """[(composed, first, second or 0)] of one step, and the places of those that are compositions."""
    found = []
    for c in scalars():
        text = unicodedata2.decomposition(chr(c))
        if text and not text.startswith("<") and c not in HANGUL and known(unicodedata2.normalize("NFD", chr(c))):
            first, second = [*(int(part, 16) for part in text.split()), 0][:2]
            found.append((c, first, second))
    places = [i for i, (c, _, second) in enumerate(found) if second and nfc(chr(c)) == chr(c)]
    return found, sorted(places, key=lambda i: found[i][1:])


def normalization(found, compositions):
    """The byte of each code point: the rank of its combining class, and whether it may change."""
    classes = {c: unicodedata2.combining(chr(c)) for c in scalars()}
    classes = {c: k for c, k in classes.items() if k and known("a\u0345" + chr(c))}
    ranks = {k: rank for rank, k in enumerate(sorted(set(classes.values())), 1)}
    values = bytearray(ranks[classes[c]] if c in classes else 0 for c in range(CODE_POINTS))
    stable = {found[i][0] for i in compositions}
    changing = {c for c, _, _ in found if c not in stable} | {found[i][2] for i in compositions} | JAMO_THAT_COMPOSE
    for c in changing:
        values[c] |= MAY_CHANGE
    return values


def run_lengths(values):
    return [(len(list(run)), value) for value, run in groupby(values)]


def rows(items):
    """Lines of at most 100 columns."""
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) + 2 > 100:
            lines.append(line)
            line = "   "
        line += f" {item},"
    return "\n".join([*lines, line])


def property_table(name, values):
    blocks = [bytes(values[at:at + BLOCK]) for at in range(0, CODE_POINTS, BLOCK)]
    different = list(dict.fromkeys(blocks))
    assert len(different) <= 256, f"{name}: {len(different)} blocks"
    block_of = run_lengths(different.index(block) for block in blocks)
    of_blocks = run_lengths(b"".join(different))
    return (f"constexpr Run k{name}Blocks[] = {{\n{rows(f'{{{n}, {v}}}' for n, v in block_of)}\n}};\n"
            f"constexpr Run k{name}Values[] = {{\n{rows(f'{{{n}, {v}}}' for n, v in of_blocks)}\n}};\n")


def source():
    found, compositions = decompositions()
    return f"""// Written by scripts/unicode_tables.py from Unicode {unicodedata2.unidata_version}; not to be changed by hand.
// Bytes of code points stand here as runs of equal ones, which the compiler lays out.

#include "tokenizer/unicode_tables.h"

#include <algorithm>

namespace strata::unicode {{
namespace {{

struct Run {{
  std::uint16_t length;
  std::uint8_t value;
}};

template <std::size_t bytes>
consteval std::array<std::uint8_t, bytes> lay_out(std::span<const Run> runs) {{
  std::array<std::uint8_t, bytes> values{{}};
  auto at = values.begin();
  for (const Run run : runs) at = std::fill_n(at, run.length, run.value);
  return values;
}}

consteval PropertyTable table(std::span<const Run> blocks, std::span<const Run> values) {{
  return {{.block_of = lay_out<kBlocks>(blocks), .values = lay_out<256 * kBlockSize>(values)}};
}}

// clang-format off
{property_table("Category", categories())}
{property_table("Normalization", normalization(found, compositions))}
constexpr Decomposition kAllDecompositions[] = {{
{rows(f"{{0x{c:X}, 0x{a:X}, 0x{b:X}}}" for c, a, b in found)}
}};
constexpr std::uint16_t kAllCompositions[] = {{
{rows(map(str, compositions))}
}};
// clang-format on

}}  // namespace

constinit const PropertyTable kCategories = table(kCategoryBlocks, kCategoryValues);
constinit const PropertyTable kNormalization = table(kNormalizationBlocks, kNormalizationValues);
constinit const std::span<const Decomposition> kDecompositions = kAllDecompositions;
constinit const std::span<const std::uint16_t> kCompositions = kAllCompositions;

}}  // namespace strata::unicode
"""


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if unicodedata2.unidata_version != "16.0.0":
        sys.exit(f"unicode_tables: unicodedata2 has Unicode {unicodedata2.unidata_version}; install 16.0.0")
    Path(sys.argv[1]).write_text(source())
