#!/usr/bin/env python3
"""Writes src/chat/python_text_tables.cpp: what Python takes for names, for digits, and for what repr() shows as it is.

  python3 scripts/python_text_tables.py src/chat/python_text_tables.cpp

The tables are asked of the Python that runs this; its version of Unicode stands in the file.
"""

import sys
import unicodedata
from pathlib import Path

TABLES = {
    "kNameStarts": str.isidentifier,
    "kNameParts": lambda c: ("a" + c).isidentifier(),
    "kPrintable": str.isprintable,
    "kDigits": str.isdigit,
}


def ranges(holds):
    found = []
    for c in range(0x80, 0x110000):
        if 0xD800 <= c < 0xE000 or not holds(chr(c)):
            continue
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def main(path):
    lines = ["// Ranges of code points from 0x80 on, written by scripts/python_text_tables.py by what Python",
             f"// {'.'.join(map(str, sys.version_info[:2]))} says of each, which has Unicode {unicodedata.unidata_version}.",
             "", '#include "chat/python_text_tables.h"', "", "namespace strata::chat::python_text {", "", "namespace {", ""]
    for name, holds in TABLES.items():
        row = f"constexpr CodePointRange {name}Ranges[] = {{"
        for first, last in ranges(holds):
            item = f"{{0x{first:x}, 0x{last:x}}},"
            if len(row) + len(item) > 98:
                lines.append(row)
                row = "    "
            row += item + " "
        lines += [row.rstrip(" ,") + "};", ""]
    lines += ["}  // namespace", ""]
    lines += [f"const std::span<const CodePointRange> {name}({name}Ranges);" for name in TABLES]
    lines += ["", "}  // namespace strata::chat::python_text", ""]
    Path(path).write_text("\n".join(lines))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
