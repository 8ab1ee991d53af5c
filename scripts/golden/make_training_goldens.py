#!/usr/bin/env python3
"""Writes what the library `tokenizers` learns of small texts: the merges of byte-level BPE.

  python3 scripts/golden/make_training_goldens.py tests/golden/data/tokenizer/training.json

Each case has the texts, each of which is one sequence, the name and the regular expression of the split, the special
tokens, the size asked for, and of the result the merges and the number of ids.
"""

import json
import random
import sys
from pathlib import Path

import tokenizers
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

WORD = r"[^\r\n\p{L}\p{N}]?"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
OTHER = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
CASED = r" ?[^\s\p{L}\p{N}]+[\r\n/]*"
SPLITS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": rf"{SUFFIX}|{WORD}\p{{L}}+|\p{{N}}{{1,3}}|{OTHER}|{SPACES}",
    "qwen2": rf"{SUFFIX}|{WORD}\p{{L}}+|\p{{N}}|{OTHER}|{SPACES}",
    "qwen35": rf"{SUFFIX}|{WORD}[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{SPACES}",
    "o200k": rf"{WORD}{UPPER}*{LOWER}+{SUFFIX}?|{WORD}{UPPER}+{LOWER}*{SUFFIX}?|\p{{N}}{{1,3}}|{CASED}|{SPACES}",
    "tekken": rf"{WORD}{UPPER}*{LOWER}+|{WORD}{UPPER}+{LOWER}*|\p{{N}}|{CASED}|{SPACES}",
}
PROSE = """The layers stream through the device, and the layer's weights go with them. Don't DON'T we'll THEY'RE.
  Indented lines,\tand tabs; then numbers: 1234567 89 10 2024-11-23.


Blank lines above. CamelCase HTMLParser iPhone e-mail a/b/c http://example.org/path/ x==y !!! ... --- ***
\u0421\u043b\u043e\u0438 \u043c\u043e\u0434\u0435\u043b\u0438 \u0438\u0434\u0443\u0442 \u0447\u0435\u0440\u0435\u0437 \u0443\u0441\u0442\u0440\u043e\u0439\u0441\u0442\u0432\u043e.
\u5c42\u5728\u8bbe\u5907\u4e2d\u6d41\u52a8\uff0c\u6743\u91cd\u4e5f\u662f\u3002
caf\u00e9 cafe\u0301 na\u00efve \U0001f600\U0001f600 \u0939\u093f\u0928\u094d\u0926\u0940 trailing spaces   \r
and carriage returns\r\n\r
the end"""


def random_words(seed, alphabet, longest, words):
    """Words of few letters: many pairs occur equally often, and letters stand in rows."""
    generator = random.Random(seed)
    return " ".join("".join(generator.choice(alphabet) for _ in range(generator.randint(1, longest)))
                    for _ in range(words))


def cases():
    for split in SPLITS:
        yield {"split": split, "special": ["<|endoftext|>"], "vocabulary": 480, "texts": [PROSE, PROSE.upper()]}
    yield {"split": "gpt2", "special": [], "vocabulary": 700, "texts": [random_words(1, "ab", 40, 120)]}
    yield {"split": "llama3", "special": ["<s>", "</s>"], "vocabulary": 700,
           "texts": [random_words(2, "aAb\u00e9\u65e5", 20, 150), random_words(3, "a", 60, 40)]}
    yield {"split": "llama3", "special": ["aa", "b", "the"], "vocabulary": 400,
           "texts": [random_words(4, "abc", 9, 200), "the then them " * 9]}
    yield {"split": "qwen2", "special": [], "vocabulary": 1000, "texts": ["all pairs of this become one token"]}
    yield {"split": "gpt2", "special": [], "vocabulary": 300, "texts": ["a\n\nb", "x", ""]}


def learn(case):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLITS[case["split"]]), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=case["vocabulary"], special_tokens=case["special"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(case["texts"], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return {**case, "regex": SPLITS[case["split"]], "vocab": model["vocab"], "merges": model["merges"]}


def main():
    document = {"tokenizers": tokenizers.__version__, "cases": [learn(case) for case in cases()]}
    for case in document["cases"]:  # the tokens follow from specials, bytes and merges: their ids are what counts
        case["ids"] = [case["vocab"][left + right] for left, right in case["merges"]]
        case["size"] = len(case.pop("vocab"))
        case["merges"] = [" ".join(pair) for pair in case["merges"]]
    Path(sys.argv[1]).write_text(json.dumps(document, indent=0, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
