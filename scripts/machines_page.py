#!/usr/bin/env python3
"""Writes docs/machines.md: which models train on which machines, by plans and predictions of strata.

  scripts/machines_page.py STRATA > docs/machines.md
  scripts/machines_page.py STRATA --check            looks at one row of each machine, and so at each model, in seconds

Each cell is the first of a few ways to train that fits by `strata plan`; the ways give up ever more. Nothing of this
machine counts: the GPU and the limits are named, and rates that were measured here are not read.
"""

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/machines.md"

SYSTEM_GIB = 4  # what is left to the system of the host's memory
MACHINES = [("RTX 5060 Ti 16GB", 16, 64), ("RTX 3090", 24, 32), ("RTX 4090", 24, 32), ("RTX 3090", 24, 64),
            ("RTX 4090", 24, 64), ("RTX 3090", 24, 128), ("RTX 4090", 24, 128), ("RTX 5090", 32, 128),
            ("A100 80GB", 80, 256)]


def model(hidden, ffn, layers, heads, kv_heads, vocabulary, **more):
    return {"hidden_size": hidden, "intermediate_size": ffn, "num_hidden_layers": layers, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "vocab_size": vocabulary, "max_position_embeddings": 8192, **more}


MODELS = {
    "Qwen2.5 1.5B": model(1536, 8960, 28, 12, 2, 151936, model_type="qwen2", tie_word_embeddings=True),
    "Qwen2.5 3B": model(2048, 11008, 36, 16, 2, 151936, model_type="qwen2", tie_word_embeddings=True),
    "Llama 3 8B": model(4096, 14336, 32, 32, 8, 128256),
    "Qwen2.5 14B": model(5120, 13824, 48, 40, 8, 152064, model_type="qwen2"),
    "Qwen2.5 32B": model(5120, 27648, 64, 40, 8, 152064, model_type="qwen2"),
    "Llama 3 70B": model(8192, 28672, 80, 64, 8, 128256),
}

CODES = ["optimizer.moment_dtype=8bit"]
NO_MASTER = [*CODES, "optimizer.master=none"]
RING = [*NO_MASTER, "optimizer.grad_clip=null", "optimizer.timing=on_arrival", "optimizer.gradient_ring=3"]
WHOLE, ONE_ROW = ["schedule.rows=2", "schedule.sub_batches=8"], ["schedule.rows=1", "schedule.sub_batches=16"]
SHORT = ["schedule.rows=1", "schedule.sub_batches=4"]
# What is given up, by its letter, and the keys; the first that fits is taken.
FULL = [("", WHOLE), ("a", WHOLE + CODES), ("b", WHOLE + NO_MASTER), ("b", ONE_ROW + NO_MASTER), ("c", WHOLE + RING),
        ("c", ONE_ROW + RING), ("d", SHORT + RING)]
ADAPTERS = [("", SHORT), ("e", ["schedule.rows=1", "schedule.sub_batches=1"])]
KINDS = [([], FULL), (["adapter.rank=16"], ADAPTERS), (["adapter.rank=16", "adapter.base_format=nf4"], ADAPTERS)]

HEAD = f"""# Which model on which machine

For users: which models train on the machine that you have, what must be given up for it, and how fast is it by
prediction?

A cell has the predicted tokens/s, the bytes on the GPU and on the host by [plan](fitting.md), and a letter for what was
given up. Host memory also holds what is spilled to save computing, as far as there is room. Rows have 4,096 tokens. All
weights train with AdamW and clipping in steps of 65,536 tokens, adapters of rank 16 on all linears in steps of 16,384.
The limit of the host is {SYSTEM_GIB} GiB below what the machine has. A dash says that none of these ways fits:

- **a**: [moments in 8 bits](numerics.md#moments-in-8-bits);
- **b**: these, and no [low halves of the weights](numerics.md#master-weights);
- **c**: these, and no clipping, with a ring of 3 gradients;
- **d**: these, and steps of 16,384 tokens;
- **e**: steps of 4,096 tokens.

All rates are [estimates from datasheets](gpus.md#what-is-known-of-them), with the host's that each GPU has there. Other
lengths and batches fit otherwise: ask `strata plan`, and [`strata tune`](tuning.md) for the fastest way.
`scripts/machines_page.py` writes this page, and a test compares the two.
"""


def plan(strata, machine, config, keys):
    """What is planned for a machine, or None if it does not fit."""
    gpu, _, host_gb = machine
    words = [strata, "plan", config, "--gpu", gpu, "--host-memory", f"{host_gb - SYSTEM_GIB}GiB", "--json", "-"]
    done = subprocess.run([*words, *(w for key in keys for w in ("--set", key))], capture_output=True, text=True)
    if done.returncode not in (0, 3):  # 3: it does not fit
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout) if done.returncode == 0 else None


def cell(strata, machine, config, kind):
    given, ways = kind
    for letter, keys in ways:
        if found := plan(strata, machine, config, given + keys):
            gpu_gib, host_gib = (found[f"{where}_bytes"] / 2**30 for where in ("device", "host"))
            tokens = float(f"{found['prediction']['tokens_per_s']:.3g}")  # three digits
            return f"{tokens:,.0f}; {gpu_gib:.1f} + {host_gib:.1f} GiB" + (f"; **{letter}**" if letter else "")
    return "-"


def rows(strata, wanted):
    """The lines of tables, by machine and model, of those that are wanted."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        os.environ["XDG_CACHE_HOME"] = folder
        cells = {}
        configs = {name: Path(folder, name.replace(" ", "-") + ".json") for name in MODELS}
        for name, config in configs.items():
            config.write_text(json.dumps({"model": MODELS[name], "data": {"synthetic": True, "sequence_length": 4096},
                                          "optimizer": {"grad_clip": 1.0}}))
        for machine, name in wanted:
            cells[machine, name] = [pool.submit(cell, strata, machine, configs[name], kind) for kind in KINDS]
        return {row: f"| {row[1]} | " + " | ".join(c.result() for c in found) + " |\n" for row, found in cells.items()}


def title(machine):
    gpu, gpu_gb, host_gb = machine
    return f"\n## {gpu_gb} GB and {host_gb} GB: {gpu}\n\n"


def page(strata):
    lines = rows(strata, [(machine, name) for machine in MACHINES for name in MODELS])
    text = HEAD
    for machine in MACHINES:
        text += title(machine) + "| model | all weights | adapters over bf16 | adapters over nf4 |\n|---|---|---|---|\n"
        text += "".join(lines[machine, name] for name in MODELS)
    return text


def check(strata):
    """Exits with what is stale."""
    text = PAGE.read_text()
    stale = [] if text.startswith(HEAD) else ["its first section"]
    names = list(MODELS)
    for (machine, _), line in rows(strata, [(m, names[i % len(names)]) for i, m in enumerate(MACHINES)]).items():
        if line not in text.partition(title(machine))[2].partition("\n##")[0] + "\n":
            stale.append(title(machine).strip() + ": " + line.strip())
    if stale:
        sys.exit("docs/machines.md is stale (scripts/machines_page.py STRATA > docs/machines.md):\n" + "\n".join(stale))


def main():
    strata, *options = sys.argv[1:]
    if options == ["--check"]:
        check(strata)
    else:
        print(page(strata), end="")


if __name__ == "__main__":
    main()
