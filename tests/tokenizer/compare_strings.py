#!/usr/bin/env python3
"""Compares the ids of many short strings with those of the library that a vocabulary is from, in one run of strata.

  compare_strings.py STRATA --models PATH... [--random COUNT] [--every-code-point] [--parse-special] [--listed PREFIX]

The strings are COUNT seeded ones (words, spaces, code points, texts of special tokens), and with --every-code-point
each code point of Unicode but zero, which no text has, in four contexts: between letters, behind a space, doubled, and
between digits. They go through `strata tokenize` as JSON lines, so its records are compared as well. The texts of a
model's own special tokens are among the words; with --parse-special they are these tokens, and text otherwise. With
--listed the strings and ids are those of PREFIX.inp and PREFIX.out, which llama.cpp has beside its vocabularies: the
ids that transformers gave with the file of the model itself. Prints how many strings differ and the first of them. Exit
code 1 if one does.
"""

import argparse
import array
import json
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import references

CONTEXTS = ["a{0}b", " {0}", "{0}{0}", "1{0}2"]
TOGETHER = 64  # code points in one string


def code_points():
    return [chr(c) for c in range(1, 0x110000) if not 0xd800 <= c < 0xe000]


def every_code_point():
    points = code_points()
    for context in CONTEXTS:
        for i in range(0, len(points), TOGETHER):
            yield "".join(context.format(point) for point in points[i:i + TOGETHER])


def read_documents(file):
    """The ids of each document of a token file of strata (docs/token-files.md)."""
    data = Path(file).read_bytes()
    version, width, tokens, documents = struct.unpack_from("<IIQQ", data, 8)
    assert data[:6] == b"STRTOK" and version == 1, "not a token file of text"
    ids = array.array({2: "H", 4: "I"}[width])
    ids.frombytes(data[64:64 + tokens * width])
    ends = struct.unpack_from(f"<{documents}Q", data, len(data) - 8 * documents)
    return [ids[begin:end].tolist() for begin, end in zip((0, *ends), ends)]


def encode_by_strata(strata, model, strings, parse_special):
    with tempfile.TemporaryDirectory() as folder:
        records, output = Path(folder) / "strings.jsonl", Path(folder) / "out.bin"
        with records.open("w") as out:
            for string in strings:
                out.write(json.dumps({"text": string}) + "\n")
        command = [strata, "tokenize", records, "--tokenizer", model, "--bos", "no", "--eos", "no", "--output", output]
        subprocess.run(command + ["--parse-special"] * parse_special, check=True, stdout=subprocess.DEVNULL)
        return read_documents(output)


def listed(prefix):
    """The strings of llama.cpp's tests of a vocabulary, with their ids."""
    texts = Path(f"{prefix}.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    lines = Path(f"{prefix}.out").read_text().split("\n")
    return [(text, list(map(int, line.split()))) for text, line in zip(texts, lines)]


def compare(strata, model, random_count, fixed, parse_special):
    reference = references.of(model)
    encode = reference.parse if parse_special else reference.encode
    if encode is None:
        print(f"{model}: {reference.name} cannot parse special tokens", flush=True)
        return 1
    words = random.Random(0).sample(reference.special, min(20, len(reference.special)))
    strings = [references.random_text(seed, 1 + seed % 40, words) for seed in range(random_count)] + fixed
    return compare_ids(strata, model, reference.name, [(string, encode(string)) for string in strings], parse_special)


def compare_ids(strata, model, name, pairs, parse_special):
    expected = [(string, ids) for string, ids in pairs if ids]  # others are no documents
    found = encode_by_strata(strata, model, [string for string, _ in expected], parse_special)
    differing = [(string, ids, ours) for (string, ids), ours in zip(expected, found) if list(ids) != ours]
    missing = abs(len(expected) - len(found))
    print(f"{model}: {len(expected)} strings, {len(differing) + missing} differ from {name}", flush=True)
    for string, ids, ours in differing[:3]:
        print(f"  {string!r}: {name} {list(ids)}, strata {ours}")
    return len(differing) + missing


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("strata")
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--every-code-point", action="store_true")
    parser.add_argument("--parse-special", action="store_true")
    parser.add_argument("--listed")
    arguments = parser.parse_args()
    if arguments.listed:
        return 1 if sum(compare_ids(arguments.strata, model, "the model's own file", listed(arguments.listed), True)
                        for model in arguments.models) else 0
    fixed = list(every_code_point()) if arguments.every_code_point else []
    return 1 if sum(compare(arguments.strata, model, arguments.random, fixed, arguments.parse_special)
                    for model in arguments.models) else 0


if __name__ == "__main__":
    sys.exit(main())
