#!/usr/bin/env python3
"""Makes the tokenizer.json that a file of tiktoken's ranks stands for, as its library would: Llama 3's.

  make_tokenizer_json.py RANKS OUT.json

Every way to split a token into two tokens is a merge, of the rank of the whole; among those of one token the order of
its parts decides.
"""

import sys
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

import references

SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]


def byte_letters():
    """The letters that stand for bytes in files of byte-level BPE."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in shown}
    letters.update({byte: chr(256 + i) for i, byte in enumerate(b for b in range(256) if b not in shown)})
    return letters


def main():
    ranks = references.ranks(Path(sys.argv[1]))
    from llama_models.llama3.tokenizer import Tokenizer as Llama3
    letters = byte_letters()
    written = {token: "".join(letters[byte] for byte in token) for token in ranks}
    merges = []
    for token, rank in ranks.items():
        splits = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in ranks and token[i:] in ranks]
        merges += [(rank, ranks[left], ranks[right], written[left], written[right]) for left, right in splits]
    model = models.BPE(vocab={written[token]: rank for token, rank in ranks.items()},
                       merges=[merge[3:] for merge in sorted(merges)], ignore_merges=True)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(Llama3.pat_str), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.save(sys.argv[2])


main()
