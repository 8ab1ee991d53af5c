#!/usr/bin/env python3
"""Trains small models of SentencePiece and writes what that library makes of texts.

  python3 scripts/golden/make_tokenizer_file_goldens.py tests/golden/data/tokenizer

Each model is a file NAME.model; files.json holds the texts and, for each model, their ids and decoded texts, and lists
of random ids with their texts. Made with sentencepiece 0.2.3.
"""

import json
import random
import sys
from pathlib import Path

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ["", " ", "   ", "\u2581", "  two  spaces ", "Hello, world!", "don't DON'T we'll", "1234567 89",
         "a\n\n b\r\n\tc   ", "caf\u00e9 cafe\u0301", "\u65e5\u672c\u8a9e\u306e\u6587", "\u041f\u0440\u0438\u0432\u0435\u0442",
         "\U0001f600\U0001f468\u200d\U0001f469", "\u2581\u2581x \u2581", "<s>hi</s> <unk> ", "<tool> <tools><tool>x",
         "x  <tool>  x ", "The layers of the training state. " * 8, "ab" * 300, "x <0x41> y", "e" * 200, " " * 100 + "x",
         "\x00\x7f\u00a0\ufeff\u3000", "\U0010ffff\ufffd\ue000", "\u65e5x\u65e5\u672cx the\u65e5the"]
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
        ids = [model.encode(text) for text in TEXTS]
        lists = [[draw.randrange(model.vocab_size()) for _ in range(1 + i % 9)] for i in range(200)]
        golden["models"][name] = {"ids": ids, "decoded": [model.decode(i) for i in ids],
                                  "lists": lists, "texts_of_lists": [model.decode(i) for i in lists]}
    (folder / "files.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
