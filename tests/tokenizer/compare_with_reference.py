#!/usr/bin/env python3
"""Compares `strata tokenizer encode` with the library that a vocabulary is from, on real vocabularies and texts.

  compare_with_reference.py STRATA --models PATH... --texts FILE... [--random COUNT] [--against PATH]

A model is a folder with a tokenizer.json, or a file: tokenizer.json (by `tokenizers`), a model of SentencePiece,
tekken.json (by mistral_common), or one of tiktoken's files. Each text is encoded as one, and so are COUNT strings made
of seeded random code points; the ids of all are decoded as well. Prints how many differ, and the processor seconds of
encoding, the median of three runs in turns. Those of strata are of the whole program, less what loading the file takes,
so printing the ids is in them. --against takes the reference's times, and no ids, from another file, such as a
tokenizer.json that was made of the model. Exit code 1 if an id or a decoded text differs.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import references

TURNS = 3


def children_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command):
    """(what the program printed, its processor seconds)"""
    begin = children_s()
    done = subprocess.run(command, capture_output=True, check=True)
    return done.stdout, children_s() - begin


def timed(call):
    begin = time.process_time()
    result = call()
    return result, time.process_time() - begin


def count_differing(ours, theirs):
    return sum(a != b for a, b in zip(ours, theirs)) + abs(len(ours) - len(theirs))


def encoded(strata, model, text_file):
    printed, seconds = run([strata, "tokenizer", "encode", model, text_file])
    return [int(word) for word in printed.split()], seconds


def decodes_alike(strata, model, reference, ids):
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(" ".join(map(str, ids)))
        file.flush()
        printed, _ = run([strata, "tokenizer", "decode", model, file.name])
    return printed.decode() == reference.decode(ids)


def compare(strata, model, reference, timer, text_file, load_s):
    text = Path(text_file).read_bytes().decode()
    theirs = reference.encode(text)
    ours_s, theirs_s = [], []
    for _ in range(TURNS):
        ours, seconds = encoded(strata, model, text_file)
        ours_s.append(max(seconds - load_s, 0))
        theirs_s.append(timed(lambda: timer.encode(text))[1])
    differing = count_differing(ours, theirs)
    alike = decodes_alike(strata, model, reference, theirs)
    decoded = "alike" if alike else "to ANOTHER TEXT"
    print(f"{model}, {text_file}: {len(theirs)} ids, {differing} differ, they decode {decoded}; "
          f"strata {statistics.median(ours_s):.2f} s, {timer.name} {statistics.median(theirs_s):.2f} s", flush=True)
    return differing + (not alike)


def compare_random(strata, model, reference, count):
    """The first string is long, so that what only long pieces meet is met."""
    differing = 0
    with tempfile.TemporaryDirectory() as folder:
        text_file = Path(folder) / "text"
        for seed in range(count):
            text = references.random_text(seed, 1 + seed % 60 if seed else 100000)
            text_file.write_bytes(text.encode())
            theirs = reference.encode(text)
            wrong = count_differing(encoded(strata, model, str(text_file))[0], theirs)
            wrong += not decodes_alike(strata, model, reference, theirs)
            if wrong:
                print(f"{model}: random string {seed} differs")
            differing += wrong
    print(f"{model}: {count} random strings, {differing} ids or texts differ", flush=True)
    return differing


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata")
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--texts", nargs="*", default=[])
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--against")
    arguments = parser.parse_args()
    differing = 0
    for model in arguments.models:
        load = [run([arguments.strata, "tokenizer", "inspect", model])[1] for _ in range(TURNS)]
        loads = [timed(lambda: references.of(model)) for _ in range(TURNS)]
        reference = loads[-1][0]
        timer = references.of(arguments.against) if arguments.against else reference
        print(f"{model}: load strata {statistics.median(load):.2f} s, "
              f"{reference.name} {statistics.median(seconds for _, seconds in loads):.2f} s")
        for text in arguments.texts:
            differing += compare(arguments.strata, model, reference, timer, text, statistics.median(load))
        differing += compare_random(arguments.strata, model, reference, arguments.random)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
