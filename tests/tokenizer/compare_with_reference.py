#!/usr/bin/env python3
"""Compares `strata tokenizer encode` with the library `tokenizers` on real vocabularies and texts.

  compare_with_reference.py STRATA --models FOLDER... --texts FILE...

Each folder has a tokenizer.json; each text is encoded as one. Prints how many ids differ, and the processor seconds of
both, the median of three runs in turns. Those of strata are of the whole program, less what loading the file takes, so
printing the ids is in them. Exit code 1 if an id differs.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tokenizers import Tokenizer

TURNS = 3


def children_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command):
    """(what the program printed, its processor seconds)"""
    begin = children_s()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout, children_s() - begin


def timed(call):
    begin = time.process_time()
    result = call()
    return result, time.process_time() - begin


def compare(strata, model, reference, text_file, load_s):
    text = Path(text_file).read_bytes().decode()
    ours_s, theirs_s = [], []
    for _ in range(TURNS):
        printed, seconds = run([strata, "tokenizer", "encode", model, text_file])
        ours_s.append(max(seconds - load_s, 0))
        theirs, seconds = timed(lambda: reference.encode(text, add_special_tokens=False).ids)
        theirs_s.append(seconds)
    ours = [int(word) for word in printed.split()]
    differing = sum(a != b for a, b in zip(ours, theirs)) + abs(len(ours) - len(theirs))
    print(f"{model}, {text_file}: {len(theirs)} ids, {differing} differ; strata {statistics.median(ours_s):.2f} s, "
          f"tokenizers {statistics.median(theirs_s):.2f} s", flush=True)
    return differing


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata")
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--texts", nargs="+", required=True)
    arguments = parser.parse_args()
    differing = 0
    for model in arguments.models:
        load = [run([arguments.strata, "tokenizer", "inspect", model])[1] for _ in range(TURNS)]
        loads = [timed(lambda: Tokenizer.from_file(f"{model}/tokenizer.json")) for _ in range(TURNS)]
        print(f"{model}: load strata {statistics.median(load):.2f} s, "
              f"tokenizers {statistics.median(seconds for _, seconds in loads):.2f} s")
        for text in arguments.texts:
            differing += compare(arguments.strata, model, loads[-1][0], text, statistics.median(load))
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
