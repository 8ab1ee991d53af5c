#!/usr/bin/env python3
"""Compares the losses of runs that differ in one option, over several seeds.

  scripts/measure/losses.py [OPTION...] NAME=SETTINGS...

  NAME=SETTINGS         runs with these settings, separated by commas, such as fp8=run.products=fp8; the first one is
                        what the others are compared with, and may have none: bf16=
    --strata PROGRAM    what trains (build/cpu-release/strata)
    --config FILE       what all train (configs/quickstart.json, on the data that scripts/quickstart.sh has made)
    --set KEY=VALUE     a setting of all runs
    --seeds N           seeds 1 to N (4)
    --jobs N            runs at once (4)
    --gpus N            each of N runs at once has a GPU of its own, in place of --jobs
    --last N            compares the mean training loss of the last N steps, in place of the last validation loss
    --json FILE         writes every loss

For each name the table has the mean loss over the seeds, its mean difference from the first name, seed by seed, in nats
of a token and as a share of the first one's loss, and the largest of these differences.
"""

import argparse
import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def settings_of(text):
    return [option for setting in text.split(",") if setting for option in ("--set", setting)]


def loss_of(folder, last):
    """The mean training loss of the last steps, or the last validation loss."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    if last:
        return statistics.mean([line["loss"] for line in lines if line["event"] == "step"][-last:])
    losses = [line["val_loss"] for line in lines if line["event"] == "eval"]
    if not losses:
        sys.exit("losses.py: the config has no validation; set data.validation")
    return losses[-1]


def train(options, name, seed, folder):
    """Trains once and returns the loss."""
    command = [options.strata, "train", options.config, *settings_of(",".join(options.set)),
               *settings_of(options.names[name]), "--set", f"run.seed={seed}", "--output", str(folder)]
    gpu = options.free_gpus.get() if options.gpus else None
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": str(gpu)} if options.gpus else None
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    options.free_gpus.put(gpu)
    if done.returncode != 0:
        sys.exit(f"losses.py: {' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return loss_of(folder, options.last)


def table(losses):
    first = next(iter(losses))
    lines = ["| | mean loss | mean difference | of the loss | largest |", "|---|---|---|---|---|"]
    for name, of_seeds in losses.items():
        apart = [loss - base for loss, base in zip(of_seeds, losses[first])]
        lines.append(f"| `{name}` | {statistics.mean(of_seeds):.4f} | {statistics.mean(apart):+.4f} "
                     f"| {statistics.mean(apart) / statistics.mean(losses[first]):+.2%} | {max(apart, key=abs):+.4f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strata", default=str(ROOT / "build/cpu-release/strata"))
    parser.add_argument("names", nargs="+", metavar="NAME=SETTINGS")
    parser.add_argument("--config", default="configs/quickstart.json")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--gpus", type=int, default=0)
    parser.add_argument("--last", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.free_gpus = queue.SimpleQueue()
    for gpu in range(options.gpus):
        options.free_gpus.put(gpu)
    options.strata = str(Path(options.strata).resolve())
    options.names = dict(name.split("=", 1) for name in options.names)
    seeds = range(1, options.seeds + 1)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.gpus or options.jobs) as pool:
        runs = {name: [pool.submit(train, options, name, seed, Path(folder) / f"{name}-{seed}") for seed in seeds]
                for name in options.names}
        losses = {name: [run.result() for run in of_seeds] for name, of_seeds in runs.items()}
    print(table(losses))
    if options.json:
        options.json.write_text(json.dumps({"config": options.config, "set": options.set, "names": options.names,
                                            "losses": losses}, indent=2) + "\n")


if __name__ == "__main__":
    main()
