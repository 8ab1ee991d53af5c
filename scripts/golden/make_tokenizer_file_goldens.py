#!/usr/bin/env python3
"""Makes small tokenizer files of SentencePiece, tiktoken and Tekken, and writes what their libraries make of texts.

  python3 scripts/golden/make_tokenizer_file_goldens.py tests/golden/data/tokenizer

Models of SentencePiece are files NAME.model; ranks.tiktoken and small_tekken.json have the same ranks. files.json holds
the texts and, for each file, their ids and decoded texts, and lists of random ids with their texts. Made with
sentencepiece 0.2.3, tiktoken 0.14.0 and mistral_common 1.13.1.
"""

import base64
import json
import random
import sys
from pathlib import Path

import sentencepiece
import tiktoken
from mistral_common.tokens.tokenizers.tekken import Tekkenizer
from sentencepiece import sentencepiece_model_pb2

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ["", " ", "   ", "\u2581", "  two  spaces ", "Hello, world!", "don't DON'T we'll", "1234567 89",
         "a\n\n b\r\n\tc   ", "caf\u00e9 cafe\u0301", "\u65e5\u672c\u8a9e\u306e\u6587", "\u041f\u0440\u0438\u0432\u0435\u0442",
         "\U0001f600\U0001f468\u200d\U0001f469", "\u2581\u2581x \u2581", "<s>hi</s> <unk> ", "<tool> <tools><tool>x",
         "x  <tool>  x ", "The layers of the training state. " * 8, "ab" * 300, "x <0x41> y", "e" * 200, " " * 100 + "x",
         "\x00\x7f\u00a0\ufeff\u3000", "\U0010ffff\ufffd\ue000", "\u65e5x\u65e5\u672cx the\u65e5the"]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
MODELS = {"sentencepiece": {"byte_fallback": True, "remove_extra_whitespaces": False},
          "sentencepiece_trimmed": {"byte_fallback": False, "remove_extra_whitespaces": True},
          "sentencepiece_bare": {"byte_fallback": True, "remove_extra_whitespaces": False, "add_dummy_prefix": False}}


def corpus():
    files = ["README.md", "docs/architecture.md", "docs/schedule.md", "docs/glossary.md"]
    return [line for name in files for line in (ROOT / name).read_text().splitlines()]


def train(file, options):
    with file.open("wb") as out:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(corpus()), model_writer=out, model_type="bpe", vocab_size=500,
            normalization_rule_name="identity", user_defined_symbols=["<tool>", "<tools>", "\u2581\u2581"],
            control_symbols=["<call>"], num_threads=1, minloglevel=2, **options)


def share_scores(file):
    """Gives eight pieces in a row one score, as runs of spaces have in Mistral's models."""
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(file.read_bytes())
    for piece in model.pieces:
        piece.score = piece.score // 8
    file.write_bytes(model.SerializeToString())


def byte_tokens():
    """Bytes, and parts of words in an order of their own, so that merges of one token compete."""
    draw = random.Random(2)
    words = sorted({word for line in corpus() for word in line.split() if word.isascii()})
    parts = {" " + word[:size] for word in words for size in range(1, 8)} | {word[:size] for word in words for size in (2, 3, 4)}
    parts |= {"\u65e5", "\u65e5\u672c", "\u041f\u0440", "  ", "    "}
    more = sorted(part.encode() for part in parts if len(part.encode()) > 1)
    return [bytes([byte]) for byte in range(256)] + draw.sample(more, 400)


def write_ranks(folder, tokens):
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens)]
    (folder / "ranks.tiktoken").write_text("".join(lines))
    return tiktoken.Encoding("ranks", pat_str=LLAMA3, mergeable_ranks={t: i for i, t in enumerate(tokens)},
                             special_tokens={})


def write_tekken(folder, tokens):
    """Twenty special tokens are known by version, two are fillers, and the last tokens do not count."""
    vocabulary = [{"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
                  for rank, token in enumerate(tokens)]
    config = {"pattern": TEKKEN, "num_vocab_tokens": len(tokens), "default_vocab_size": len(tokens) - 50 + 22,
              "default_num_special_tokens": 22, "version": "v3"}
    file = folder / "small_tekken.json"
    file.write_text(json.dumps({"config": config, "vocab": vocabulary}) + "\n")
    return Tekkenizer.from_file(file)


def cases(encode, decode, ids, draw):
    """What a library makes of the texts, and of lists of random ids."""
    of_texts = [encode(text) for text in TEXTS]
    lists = [[draw.randrange(*ids) for _ in range(1 + i % 9)] for i in range(200)]
    return {"ids": of_texts, "decoded": [decode(i) for i in of_texts],
            "lists": lists, "texts_of_lists": [decode(i) for i in lists]}


def main():
    folder = Path(sys.argv[1])
    draw = random.Random(1)
    golden = {"texts": TEXTS, "models": {}}
    for name, options in MODELS.items():
        file = folder / f"{name}.model"
        train(file, options)
        if name == "sentencepiece_bare":
            share_scores(file)
        model = sentencepiece.SentencePieceProcessor(model_file=str(file))
        golden["models"][f"{name}.model"] = cases(model.encode, model.decode, (0, model.vocab_size()), draw)
    tokens = byte_tokens()
    ranks = write_ranks(folder, tokens)
    golden["ranks"] = cases(ranks.encode_ordinary, ranks.decode, (0, len(tokens)), draw)
    tekken = write_tekken(folder, tokens)
    golden["models"]["small_tekken.json"] = cases(
        lambda text: tekken.encode(text, bos=False, eos=False), tekken.decode, (22, tekken.n_words), draw)
    (folder / "files.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
