#!/usr/bin/env python3
"""Makes the golden files that the C++ tests compare with, from PyTorch on the CPU.

    python3 scripts/golden/make_goldens.py OUTDIR

The committed copy is tests/golden/data. Needs torch, transformers and safetensors. Seeds are fixed;
another PyTorch version may change the last bits, which the tests' tolerances allow. (Operator
goldens: operators.py. Whole models, and what their files hold: models.py; adapters of PEFT on
them: adapters.py, also where the files are in 4 bits: bnb_folders.py; what models are continued
with: generation.py.)
"""

import json
import sys
from pathlib import Path

import safetensors
import torch
import transformers

import adapters
import bnb_folders
import generation
import models
import nf4
import operators
import rope_scaling
import row_codes


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # sums in one order, so a rerun gives the same bytes
    torch.use_deterministic_algorithms(True)
    versions = {m.__name__: str(m.__version__) for m in (torch, transformers, safetensors)}
    print("versions:", versions)
    operators.make(folder)
    models.make(folder)
    nf4.make(folder)
    row_codes.make(folder)
    adapters.make(folder)
    bnb_folders.make(folder)
    generation.make(folder)
    rope_scaling.make(folder)
    (folder / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")
    for file in sorted(p for p in folder.rglob("*") if p.is_file()):
        print(f"{file.stat().st_size:9d} {file.relative_to(folder)}")


if __name__ == "__main__":
    main()
