#!/usr/bin/env python3
"""Runs every command of docs/cookbook.md, in the order of the page, as a user would in the root of the repository, and
looks at what came of it. STRATA_TINY=1 makes the examples small, configs/llama-1.3b.json is replaced by a model of the
same keys that two cores train in seconds, and configs/llama-7b.json, for which the page plans, keeps four layers;
nothing else is changed. `sbatch` is a stand-in that runs the tasks of an array one after the other.

  cookbook_test.py STRATA ROOT    exit code 77 if there is no mpirun
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SBATCH = """#!/bin/bash
set -euo pipefail
last=$(sed -n 's/^#SBATCH --array=0-//p' "$1")
for task in $(seq 0 "$last"); do SLURM_SUBMIT_DIR=$PWD SLURM_ARRAY_TASK_ID=$task bash "$@"; done
"""

# What the output of a command holds, by the command's beginning.
SAID = {
    "strata plan configs/llama-7b.json --gpu": ["RTX 4090", "predicted step"],
    "strata plan configs/llama-7b.json --generate": ["RTX 4090", "tokens/s drawn"],
    "strata plan configs/qwen3-100m.json": ["host in all:", "of 6 GiB"],
    "strata plan configs/qwen3-8b.json": ["layers.35.adapter", "predicted step"],
    "strata export runs/adapter": ["with the adapters added"],
    "strata tokenize pairs.jsonl": ["pairs of a chosen and a rejected answer"],
    "strata tune": ["RTX 4090", "written: tuned.json"],
    "strata generate": ["20 tokens drawn", "house number"],
    "strata report": ["html"],
    "strata doctor": ["host memory", "AdamW", "a checkpoint takes", "ok    memory of the run"],
    "scripts/examples/pretrain.sh": ["validation loss ", "sample: The "],
    "CONFIG=configs/qwen3-100m.json": ["validation loss "],
    "TEMPLATE=chatml scripts/examples/fine_tune.sh": ["<|im_start|>", "validation loss "],
    "scripts/examples/other_hardware.sh": [" steps, loss "],
    "scripts/examples/sweep.sbatch configs": ["<- lowest loss"],
    "scripts/examples/sweep.sbatch --table": ["<- lowest loss"],
    "scripts/examples/new_gpu.sh": ["tokens/s", "--set hardware.product_tflops="],
    "strata evaluate": ["perplexity"],
    "strata inspect runs/own/run": ["step 12"],
    "strata bench": ["tokens/s"],
    "strata bench --suite": ["tiny-generate", "2 of 2"],
    "strata bench --compare": ["| tiny ", "ratio"],
}


def commands(page):
    """The commands of the page's blocks; a line that ends with a backslash goes on."""
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S):
        yield from (line for line in block.replace("\\\n", " ").splitlines() if line.strip())


def prepare(folder, root, strata):
    shutil.copytree(root / "scripts/examples", folder / "scripts/examples")
    shutil.copytree(root / "configs", folder / "configs")
    config = json.loads((root / "configs/quickstart.json").read_text())
    config["run"].update(steps=12, output="runs/default")
    config["model"]["vocab_size"] = 512  # of the tokenizer that pretrain.sh makes
    config["data"] = {"sequence_length": 128}
    config["schedule"] = {"rows": 2, "sub_batches": 1}
    config["optimizer"]["warmup_steps"] = 2
    (folder / "configs/llama-1.3b.json").write_text(json.dumps(config))
    planned = json.loads((root / "configs/llama-7b.json").read_text())
    planned["model"]["num_hidden_layers"] = 4
    (folder / "configs/llama-7b.json").write_text(json.dumps(planned))

    (folder / "texts").mkdir()
    for i in range(120):
        lines = [f"The {'red' if (i * j) % 3 else 'blue'} house number {i} has {j % 7} windows and a door.\n"
                 for j in range(20)]
        (folder / f"texts/{i}.txt").write_text("".join(lines))
    (folder / "texts/notes.txt").write_text("The red house number 7 has 3 windows and a door.\n" * 20)
    chats = [{"messages": [{"role": "user", "content": f"Is it far to house {i}?"},
                           {"role": "assistant", "content": "The door is ten minutes on foot."}]} for i in range(60)]
    (folder / "chats.jsonl").write_text("".join(json.dumps(c) + "\n" for c in chats))
    pairs = [{"prompt": f"Is it far to house {i}?", "chosen": "The door is ten minutes on foot.", "rejected": "Yes."}
             for i in range(60)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(p) + "\n" for p in pairs))

    (folder / "bin").mkdir()
    (folder / "bin/strata").symlink_to(strata)
    (folder / "bin/sbatch").write_text(SBATCH)
    (folder / "bin/sbatch").chmod(0o755)


def events(folder, run, kind):
    lines = (folder / "runs" / run / "metrics.jsonl").read_text().splitlines()
    return [e for e in map(json.loads, lines) if e["event"] == kind]


def losses(folder, run):
    return [e["loss"] for e in events(folder, run, "step")]


def check_results(folder):
    """What the runs of the page have left, as problems."""
    for run, fall in (("own/run", 1.0), ("chat/run", 2.0), ("adapter", 0.3), ("preferred", 0.5)):
        first, *_, last = losses(folder, run)
        if last > first - fall:
            yield f"runs/{run}: the loss fell from {first} to {last} only"
    ranks = [e["ranks"] for kind in ("start", "resume") for e in events(folder, "moved", kind)]
    steps, ended = [e["step"] for e in events(folder, "moved", "step")], events(folder, "moved", "end")
    last = [e["steps"] for e in ended]
    if ranks != [1, 2, 1] or steps != list(range(1, last[-1] + 1)) or not 10 <= last[0] < last[1] < last[2]:
        yield f"runs/moved: {len(steps)} steps on {ranks} ranks, which ended after {last}"
    for sweep in ("sweep", "array"):
        if len(list((folder / "runs" / sweep).glob("lr-*"))) != 5:
            yield f"runs/{sweep}: not five run folders"
    # Alone and as tasks of an array the runs are the same.
    if losses(folder, "sweep/lr-1e-3") != losses(folder, "array/lr-1e-3"):
        yield "runs/sweep and runs/array differ"
    if losses(folder, "further")[0] > losses(folder, "mine")[0] - 1:
        yield "runs/further does not begin with a model that was trained"


def main():
    strata, root = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    if not shutil.which("mpirun") or "MPI                none" in subprocess.run(
            [strata, "--version"], capture_output=True, text=True).stdout:
        print("skipped: needs mpirun, and a strata with MPI")
        return 77
    wrong, seen = [], set()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, root, strata)
        environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "STRATA_TINY": "1",
                       "CUDA_VISIBLE_DEVICES": "", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        environment.pop("STRATA", None)
        for command in commands((root / "docs/cookbook.md").read_text()):
            begun = time.monotonic()
            done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            print(f"{time.monotonic() - begun:5.1f} s  {' '.join(command.split())}", flush=True)
            if done.returncode != 0:
                print(done.stdout[-3000:])
                return 1
            for beginning, texts in SAID.items():
                if command.startswith(beginning):
                    seen.add(beginning)
                    wrong += [f"{command}: does not say {t!r}:\n{done.stdout[-1500:]}" for t in texts
                              if t not in done.stdout]
        wrong += [f"the page has no command {b!r}" for b in SAID if b not in seen]
        wrong += check_results(folder)
    print("\n".join(wrong) if wrong else "every command of the cookbook did what the page says")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
