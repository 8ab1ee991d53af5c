#!/usr/bin/env python3
"""Compares `strata tokenizer train` with the library `tokenizers` on real texts.

  compare_training.py STRATA --texts FILE... [--vocab-size 32000] [--split llama3]

A tokenizer is trained on each text by both, on one thread. Prints how many merges differ, and the processor seconds of
both, the median of three runs in turns: of strata those of the whole program, of `tokenizers` those of the training
alone, in a process of its own. Exit code 1 if a merge differs.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TURNS = 3


def run(command, environment):
    """(what the program printed, its processor seconds)"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def train_reference(text_file, regex, size, output):
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
    text = Path(text_file).read_bytes().decode()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(regex), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    begin = time.process_time()
    tokenizer.train_from_iterator([text], trainer)
    print(time.process_time() - begin)
    tokenizer.save(output)


def compare(strata, text, size, split, folder):
    ours, theirs = folder / "strata", folder / "reference.json"
    ours_s, theirs_s = [], []
    one_thread = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
    for _ in range(TURNS):
        ours_s.append(run([strata, "tokenizer", "train", text, "--output", str(ours), "--vocab-size", str(size),
                           "--split", split, "--threads", "1", "--overwrite"], one_thread)[1])
        made = json.loads((ours / "tokenizer.json").read_text())
        regex = made["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
        printed, _ = run([sys.executable, __file__, "--reference", text, regex, str(size), str(theirs)], one_thread)
        theirs_s.append(float(printed))
    mine, reference = made["model"]["merges"], json.loads(theirs.read_text())["model"]["merges"]
    differing = sum(a != b for a, b in zip(mine, reference)) + abs(len(mine) - len(reference))
    ours_s, theirs_s = statistics.median(ours_s), statistics.median(theirs_s)
    print(f"{text}, {split}: {len(reference)} merges, {differing} differ; strata {ours_s:.2f} s, "
          f"tokenizers {theirs_s:.2f} s ({theirs_s / ours_s:.1f} x)", flush=True)
    return differing


def main():
    if sys.argv[1:2] == ["--reference"]:
        text, regex, size, output = sys.argv[2:]
        return train_reference(text, regex, int(size), output)
    parser = argparse.ArgumentParser()
    parser.add_argument("strata")
    parser.add_argument("--texts", nargs="+", required=True)
    parser.add_argument("--vocab-size", type=int, default=32000)
    parser.add_argument("--split", default="llama3")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        differing = sum(compare(arguments.strata, text, arguments.vocab_size, arguments.split, Path(folder))
                        for text in arguments.texts)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
