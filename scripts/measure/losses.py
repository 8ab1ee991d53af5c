#!/usr/bin/env python3
"""Compares the validation losses of runs that differ in one option, over several seeds.

  scripts/measure/losses.py [OPTION...] NAME=SETTINGS...

  NAME=SETTINGS         runs with these settings, separated by commas, such as fp8=run.products=fp8; the first one is
                        what the others are compared with, and may have none: bf16=
    --strata PROGRAM    what trains (build/cpu-release/strata)
    --config FILE       what all train (configs/quickstart.json, on the data that scripts/quickstart.sh has made)
    --set KEY=VALUE     a setting of all runs
    --seeds N           seeds 1 to N (4)
    --jobs N            runs at once (4)
    --json FILE         writes every loss

A run's loss is that of its last validation. For each name the table has the mean over the seeds, its mean difference
from the first name, seed by seed, and the largest of these differences, in nats of a token.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def settings_of(text):
    return [option for setting in text.split(",") if setting for option in ("--set", setting)]


def last_validation(folder):
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    losses = [line["val_loss"] for line in lines if line["event"] == "eval"]
    if not losses:
        sys.exit("losses.py: the config has no validation; set data.validation")
    return losses[-1]


def train(options, name, seed, folder):
    """Trains once and returns the last validation loss."""
    command = [options.strata, "train", options.config, *settings_of(",".join(options.set)),
               *settings_of(options.names[name]), "--set", f"run.seed={seed}", "--output", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"losses.py: {' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return last_validation(folder)


def table(losses):
    first = next(iter(losses))
    lines = ["| | mean loss | mean difference | largest |", "|---|---|---|---|"]
    for name, of_seeds in losses.items():
        apart = [loss - base for loss, base in zip(of_seeds, losses[first])]
        lines.append(f"| `{name}` | {statistics.mean(of_seeds):.4f} | {statistics.mean(apart):+.4f} "
                     f"| {max(apart, key=abs):+.4f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strata", default=str(ROOT / "build/cpu-release/strata"))
    parser.add_argument("names", nargs="+", metavar="NAME=SETTINGS")
    parser.add_argument("--config", default="configs/quickstart.json")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.strata = str(Path(options.strata).resolve())
    options.names = dict(name.split("=", 1) for name in options.names)
    seeds = range(1, options.seeds + 1)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        runs = {name: [pool.submit(train, options, name, seed, Path(folder) / f"{name}-{seed}") for seed in seeds]
                for name in options.names}
        losses = {name: [run.result() for run in of_seeds] for name, of_seeds in runs.items()}
    print(table(losses))
    if options.json:
        options.json.write_text(json.dumps({"config": options.config, "set": options.set, "names": options.names,
                                            "losses": losses}, indent=2) + "\n")


if __name__ == "__main__":
    main()
