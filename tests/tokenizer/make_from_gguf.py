#!/usr/bin/env python3
"""Makes a tokenizer.json of the vocabulary in a GGUF file of byte-level BPE, such as the ones of llama.cpp's tests.

  make_from_gguf.py FILE.gguf gpt2|qwen2|deepseek|deepseek-coder OUT.json

Needs the packages `gguf` and `tokenizers`. The name says how texts are split; `deepseek` is as DeepSeek-V3 does it.
"""

import sys

from gguf import GGUFReader
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+")
DEEPSEEK = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
            '[!"#$%&' r"'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
DEEPSEEK_CODER = [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"]
SPECIAL, ADDED = 3, 4  # token types


def isolated(patterns):
    return [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in patterns]


def byte_level(splits):
    return pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


PRE_TOKENIZERS = {
    "gpt2": lambda: pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    "qwen2": lambda: byte_level(isolated([QWEN])),
    "deepseek": lambda: byte_level(isolated(DEEPSEEK)),
    "deepseek-coder": lambda: byte_level([*isolated(DEEPSEEK_CODER), pre_tokenizers.Digits(individual_digits=True)]),
}


def main():
    file, family, output = sys.argv[1:]
    fields = GGUFReader(file).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()]
    words = {token: i for i, (token, kind) in enumerate(zip(tokens, types)) if kind not in (SPECIAL, ADDED)}
    tokenizer = Tokenizer(models.BPE(vocab=words, merges=merges))
    if family == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[family]()
    tokenizer.decoder = decoders.ByteLevel()
    # In the order of their ids, which are then those of the file.
    for token, kind in zip(tokens, types):
        if kind == SPECIAL:
            tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False)])
        elif kind == ADDED:
            tokenizer.add_tokens([AddedToken(token, special=False, normalized=False)])
    tokenizer.save(output)


main()
