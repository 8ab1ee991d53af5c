#!/usr/bin/env python3
"""Trains a few steps, exports in bf16 and in f32, and compares the bits of both with the checkpoint's, all read by the
safetensors library itself.

  export_safetensors_test.py STRATA CONFIGS    exit code 77 if there is no safetensors
"""

import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    from safetensors import deserialize
except ImportError:
    print("skipped: this Python has no safetensors (pip install safetensors, and -DSTRATA_PYTHON=PYTHON)")
    sys.exit(77)


def read(file):
    """The tensors of a file: {name: (dtype, shape, bytes)}."""
    return {name: (t["dtype"], list(t["shape"]), bytes(t["data"])) for name, t in deserialize(file.read_bytes())}


def integers(code, data):
    return [x[0] for x in struct.iter_unpack("<" + code, data)]


def low_halves(file):
    """What the checkpoint holds for a block beside its bf16 weights, without the padding."""
    raw = file.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    elements = int(json.loads(raw[8:8 + length])["__metadata__"]["elements"])
    return integers("h", read(file)["low"][2])[:elements]


def check_index(folder, dtype):
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    seen = {name: file.name for file in folder.glob("*.safetensors") for name in read(file)}
    assert index["weight_map"] == seen
    assert {t[0] for file in folder.glob("*.safetensors") for t in read(file).values()} == {dtype}


def check_exact(upper, exact, low):
    """f32 masters are (bf16 << 16) + low, and every low half of the block is in one of them."""
    found = []
    assert upper.keys() == exact.keys()
    for name, (_, shape, data) in upper.items():
        assert exact[name][1] == shape, name
        masters = integers("I", exact[name][2])
        found += [master - (bits << 16) for bits, master in zip(integers("H", data), masters, strict=True)]
    assert any(found) and sorted(found) == sorted(low)


def check(strata, configs, scratch):
    def run(*arguments):
        subprocess.run([strata, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    folder = scratch / "run"
    run("train", f"{configs}/tiny-cpu.json", "--output", str(folder), "--set", "run.steps=2", "--set",
        "optimizer.warmup_steps=1", "--set", "run.dtype=bf16", "--set", "checkpoint.at_end=true")
    run("export", str(folder), str(scratch / "bf16"))
    run("export", str(folder), str(scratch / "f32"), "--dtype", "f32")
    check_index(scratch / "bf16", "BF16")
    check_index(scratch / "f32", "F32")
    (checkpoint,) = (folder / "checkpoints").iterdir()
    weights = sorted((checkpoint / "model").glob("*.safetensors"))
    states = [checkpoint / "state" / f"{name}.safetensors"
              for name in ["embedding", *(f"layers.{i}" for i in range(len(weights) - 2)), "head"]]
    for file, state in zip(weights, states, strict=True):
        upper = read(file)
        assert read(scratch / "bf16" / file.name) == upper, file.name
        check_exact(upper, read(scratch / "f32" / file.name), low_halves(state))
    print(f"{len(weights)} files of each export read")


with tempfile.TemporaryDirectory() as scratch_folder:
    check(sys.argv[1], sys.argv[2], Path(scratch_folder))
