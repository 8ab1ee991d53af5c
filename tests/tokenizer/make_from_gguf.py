#!/usr/bin/env python3
"""Makes a tokenizer.json of the vocabulary in a GGUF file, such as the ones of llama.cpp's tests.

  make_from_gguf.py FILE.gguf gpt2|qwen2|deepseek|deepseek-coder|starcoder|phi3|gemma OUT.json

Needs the package `tokenizers`. The name says how texts are split; `deepseek` is as DeepSeek-V3 does it. The
last two are SentencePiece's: Phi-3's merges follow from its scores, and the tokens of its turns strip white space
behind them, as in its own file.
"""

import struct
import sys
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+")
DEEPSEEK = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
            '[!"#$%&' r"'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
DEEPSEEK_CODER = [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"]
SPECIAL, ADDED = 3, 4  # token types
PIECES = {"phi3": 32000}  # those of SentencePiece where the file has more tokens


class Keys:
    """The keys of a GGUF file. The library gguf takes ten times as long where there are many texts."""
    FORMATS = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}
    TEXT, LIST = 8, 9

    def __init__(self, data):
        self.data, self.at = data, 8
        _, count = self.take("QQ")
        self.values = {self.value(self.TEXT): self.value(*self.take("I")) for _ in range(count)}

    def take(self, kinds):
        values = struct.unpack_from("<" + kinds, self.data, self.at)
        self.at += struct.calcsize("<" + kinds)
        return values

    def value(self, kind):
        if kind == self.TEXT:
            (size,) = self.take("Q")
            self.at += size
            return self.data[self.at - size:self.at].decode()
        if kind == self.LIST:
            kind, count = self.take("IQ")
            if kind in self.FORMATS:
                return self.take(f"{count}{self.FORMATS[kind]}")
            return [self.value(kind) for _ in range(count)]
        return self.take(self.FORMATS[kind])[0]


def isolated(patterns):
    return [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in patterns]


def byte_level(splits):
    return pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


PRE_TOKENIZERS = {
    "gpt2": lambda: pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    "qwen2": lambda: byte_level(isolated([QWEN])),
    "deepseek": lambda: byte_level(isolated(DEEPSEEK)),
    "starcoder": lambda: pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                  pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]),
    "deepseek-coder": lambda: byte_level([*isolated(DEEPSEEK_CODER), pre_tokenizers.Digits(individual_digits=True)]),
}


def byte_level_model(words, merges, family):
    tokenizer = Tokenizer(models.BPE(vocab=words, merges=merges))
    if family == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[family]()
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def sentencepiece_model(words, merges, family):
    tokenizer = Tokenizer(models.BPE(vocab=words, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    spaces = normalizers.Replace(" ", "\u2581")
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    if family == "gemma":
        tokenizer.normalizer = spaces
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", behavior="merged_with_previous")
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), spaces])
        steps.append(decoders.Strip(content=" ", left=1, right=0))
    tokenizer.decoder = decoders.Sequence(steps)
    return tokenizer


def merges_by_scores(words, scores):
    """Every way to make a word of two others, best scores first; of one word in the order of the parts' ids."""
    merges = []
    for word in words:
        parts = [(word[:i], word[i:]) for i in range(1, len(word))]
        known = sorted((words[left], words[right], left, right) for left, right in parts
                       if left in words and right in words)
        merges += [(-scores[words[word]], left, right) for _, _, left, right in known]
    return [merge[1:] for merge in sorted(merges, key=lambda merge: merge[0])]


def main():
    file, family, output = sys.argv[1:]
    keys = Keys(Path(file).read_bytes()).values
    tokens, types = keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.token_type"]
    is_sentencepiece = family in ("phi3", "gemma")
    if is_sentencepiece:
        words = {token: i for i, token in enumerate(tokens[:PIECES.get(family)])}
    else:
        words = {token: i for i, (token, kind) in enumerate(zip(tokens, types)) if kind not in (SPECIAL, ADDED)}
    if "tokenizer.ggml.merges" in keys:
        merges = [tuple(merge.split(" ")) for merge in keys["tokenizer.ggml.merges"]]
    else:
        merges = merges_by_scores(words, keys["tokenizer.ggml.scores"])
    tokenizer = (sentencepiece_model if is_sentencepiece else byte_level_model)(words, merges, family)
    # In the order of their ids, which are then those of the file.
    for number, (token, kind) in enumerate(zip(tokens, types)):
        strips = number > PIECES.get(family, len(tokens))
        if kind == SPECIAL or is_sentencepiece and token == "<unk>":
            tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False, rstrip=strips)])
        elif kind == ADDED:
            tokenizer.add_tokens([AddedToken(token, special=False, normalized=False)])
    tokenizer.save(output)


main()
