#!/usr/bin/env python3
"""Cuts what the self-test of `strata doctor` compares with out of a golden model's results.

    python3 scripts/golden/cut_self_test.py tests/golden/data/gqa_tied_llama3

Reads expected.safetensors of the folder, which make_goldens.py had PyTorch compute, and writes
self_test.safetensors beside it: the batches of five steps, their losses and norms, what PyTorch
itself gets wrong in f32 and bf16, and the optimizer's numbers. The program carries this file, the
model and its config. Needs no packages.
"""

import json
import struct
import sys
from pathlib import Path

WANTED = ("tokens", "targets", "positions", "loss", "grad_norm", "loss.f32_error", "loss.bf16_error",
          "grad_norm.f32_error", "grad_norm.bf16_error", "optimizer.lr", "optimizer.beta1", "optimizer.beta2",
          "optimizer.eps", "optimizer.weight_decay", "optimizer.clip")


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    folder = Path(sys.argv[1])
    whole = (folder / "expected.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8:8 + size])
    data = whole[8 + size:]
    cut, parts, at = {}, [], 0
    for name in sorted(WANTED, key=lambda n: (header[n]["dtype"] != "F64", n)):  # wide ones first: aligned
        begin, end = header[name]["data_offsets"]
        cut[name] = {**header[name], "data_offsets": [at, at + end - begin]}
        parts.append(data[begin:end])
        at += end - begin
    text = json.dumps(cut, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    (folder / "self_test.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


if __name__ == "__main__":
    main()
