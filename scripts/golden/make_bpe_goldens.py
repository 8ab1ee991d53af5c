#!/usr/bin/env python3
"""Trains small tokenizers and writes what the library `tokenizers` makes of texts.

  python3 scripts/golden/make_bpe_goldens.py tests/golden/data/tokenizer

Each tokenizer is a file NAME.json; bpe.json holds the texts and, for each tokenizer, their ids and decoded texts.
"""

import json
import sys
from pathlib import Path

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

ROOT = Path(__file__).resolve().parents[2]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
TEXTS = ["", " ", "  two  spaces ", "Hello, world!", "don't DON'T we'll", "1234567 89", "a\n\n b\r\n\tc   ",
         "caf\u00e9 cafe\u0301", "\u65e5\u672c\u8a9e\u306e\u6587", "\u041f\u0440\u0438\u0432\u0435\u0442", "\U0001f600\U0001f468\u200d\U0001f469",
         "\u2581\u2581x \u2581", "<s>hi</s> <s> ", " <mask>  <mask>x", "The layers of the training state. " * 8, "ab" * 300,
         "x <0x41> y", "<tool> and <TOOL>", "\x00\x7f\u00a0\ufeff"]


def corpus():
    files = ["README.md", "docs/architecture.md", "docs/schedule.md", "docs/glossary.md"]
    return [line for name in files for line in (ROOT / name).read_text().splitlines()] + TEXTS[:12] * 3


def trained(model, special, size, byte_level):
    tokenizer = Tokenizer(model)
    return tokenizer, trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if byte_level else [])


def add_tokens(tokenizer):
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True, special=True, normalized=False)])
    tokenizer.add_tokens([AddedToken("<tool>", normalized=True, special=False)])


def gpt2():
    tokenizer, trainer = trained(models.BPE(), ["<s>", "</s>"], 600, True)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def llama3():
    tokenizer, trainer = trained(models.BPE(ignore_merges=True), [], 600, True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def digits():
    tokenizer, trainer = trained(models.BPE(), [], 500, True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.ByteLevel(False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def sentence_piece(byte_fallback):
    special = ["<unk>"] + ([f"<0x{b:02X}>" for b in range(256)] if byte_fallback else [])
    model = models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=byte_fallback)
    tokenizer, trainer = trained(model, special, 600 if byte_fallback else 350, False)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(corpus()[:150], trainer)
    if byte_fallback:  # the bytes' tokens are not added ones
        document = json.loads(tokenizer.to_str())
        document["added_tokens"] = document["added_tokens"][:1]
        tokenizer = Tokenizer.from_str(json.dumps(document))
    return tokenizer


def llama2():
    tokenizer = sentence_piece(True)
    tokenizer.pre_tokenizer = None
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    return tokenizer


def metaspace():
    tokenizer = sentence_piece(False)
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def metaspace_first():
    tokenizer = sentence_piece(True)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first", split=False)
    return tokenizer


def main():
    folder = Path(sys.argv[1])
    golden = {"texts": TEXTS, "tokenizers": {}}
    for make in (gpt2, llama3, digits, llama2, metaspace, metaspace_first):
        tokenizer = make()
        add_tokens(tokenizer)
        begin, end = tokenizer.token_to_id("<s>"), tokenizer.token_to_id("</s>")
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", begin), ("</s>", end)])
        (folder / f"{make.__name__}.json").write_text(json.dumps(json.loads(tokenizer.to_str())) + "\n")
        cases = {}
        for name, parse in (("parsed", True), ("ordinary", False)):
            tokenizer.encode_special_tokens = not parse
            ids = [tokenizer.encode(text, add_special_tokens=parse).ids for text in TEXTS]
            cases[name] = {"ids": ids, "decoded": [tokenizer.decode(i, skip_special_tokens=parse) for i in ids]}
        golden["tokenizers"][make.__name__] = cases
    (folder / "bpe.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
