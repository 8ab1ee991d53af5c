#!/usr/bin/env python3
"""Fails unless a program has the GPU code that it was built for, and no other; it needs no CUDA tools.

  scripts/check_gpu_code.py PROGRAM ARCHITECTURE...    in CMake's words, such as 80 90a-real 100-virtual
  scripts/check_gpu_code.py PROGRAM                    only lists the code with its size

It reads the containers that nvcc embeds (fat binaries), as cuobjdump --list-elf and --list-ptx do.
"""

import collections
import re
import struct
import sys
from pathlib import Path

MAGIC = struct.pack("<I", 0xBA55ED50)
KINDS = {1: "PTX", 2: "code"}


def embedded(data):
    """Returns the bytes of each (kind, architecture)."""
    sizes = collections.Counter()
    at = data.find(MAGIC)
    while at >= 0:
        _, _, header, total = struct.unpack_from("<IHHQ", data, at)
        entry, end = at + header, at + header + total
        while entry < end <= len(data):
            kind, _, entry_header, payload = struct.unpack_from("<HHIQ", data, entry)
            (architecture,) = struct.unpack_from("<I", data, entry + 28)
            sizes[KINDS.get(kind, f"kind {kind}"), architecture] += payload
            entry += entry_header + payload
        at = data.find(MAGIC, at + 4)
    return sizes


def wanted(architectures):
    for architecture in architectures:
        number = int(re.match(r"\d+", architecture).group())
        if not architecture.endswith("-virtual"):
            yield ("code", number)
        if not architecture.endswith("-real"):
            yield ("PTX", number)


def main(program, *architectures):
    found = embedded(Path(program).read_bytes())
    for (kind, architecture), size in sorted(found.items()):
        print(f"{kind} for {architecture // 10}.{architecture % 10}: {size / 2**20:.2f} MiB")
    expected = set(wanted(architectures))
    if architectures and expected != set(found):
        sys.exit(f"{program}: missing {sorted(expected - set(found))}, too many {sorted(set(found) - expected)}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
