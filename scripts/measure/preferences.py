#!/usr/bin/env python3
"""Compares the speed of preference training with that of fine-tuning on the same answers, in turns.

  scripts/measure/preferences.py [STRATA]   this program (build/cpu-release/strata)
    --config FILE     of the model (configs/llama3-8b.json), whose weights are drawn
    --set KEY=VALUE   as of strata train; several times
    --tokens N        of a row (4096)
    --steps N         of each run; the first two do not count (8)
    --objective NAME  (dpo)
    --folder DIR      where runs have their folders (the system's folder for temporary files)

Prompts and answers are words of docs, 60 to 600 tokens each, in shorter rows fewer. The lines say how many tokens a second the runs took, the
median of their steps, and the last one what share of fine-tuning's speed preference training has.
"""

import argparse
import json
import random
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ("{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
            "{% endgeneration %}{% else %}{{ m.content }}{% endif %}\n{% endfor %}")
WARM_UP = 2
PAIRS = 2000


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder

    def strata(self, *words):
        subprocess.run([self.options.strata, *map(str, words)], check=True, stdout=subprocess.DEVNULL, cwd=self.folder)

    def make_data(self, row_tokens):
        """Token files of pairs, and of their answers as conversations, in which every row is as full."""
        words = [w for page in sorted((ROOT / "docs").glob("*.md")) for w in re.findall(r"[A-Za-z]+", page.read_text())]
        (self.folder / "text.txt").write_text(" ".join(words))
        self.strata("tokenizer", "train", "text.txt", "--vocab-size", 2048, "--output", "tokenizer")
        told = self.folder / "tokenizer/tokenizer_config.json"
        told.write_text(json.dumps({**(json.loads(told.read_text()) if told.exists() else {}),
                                    "chat_template": TEMPLATE}))
        draws = random.Random(1)

        def text():
            begin = draws.randrange(len(words) - 400)
            return " ".join(words[begin:begin + draws.randint(40, min(400, row_tokens // 12))])

        with open(self.folder / "pairs.jsonl", "w") as pairs, open(self.folder / "chats.jsonl", "w") as chats:
            for _ in range(PAIRS):
                record = {"prompt": text(), "chosen": text(), "rejected": text()}
                print(json.dumps(record), file=pairs)
                for answer in ("chosen", "rejected"):
                    print(json.dumps({"prompt": record["prompt"], "completion": record[answer]}), file=chats)
        for name in ("pairs", "chats"):
            self.strata("tokenize", f"{name}.jsonl", "--tokenizer", "tokenizer", "--output", f"{name}.bin")

    def tokens_per_s(self, objective):
        keys = [f"run.steps={self.options.steps}", "run.log_every=1", "checkpoint.at_end=false", "adapter.rank=16",
                f"data.sequence_length={self.options.tokens}", "data.document_mask=true", "data.packing=true",
                "data.overlong=drop", "optimizer.grad_clip=null", "optimizer.warmup_steps=0",
                f"train.objective={objective}", f"data.train={'chats' if objective == 'sft' else 'pairs'}.bin",
                *self.options.set]
        self.strata("train", Path(self.options.config).resolve(), "--output", objective,
                    *(word for key in keys for word in ("--set", key)))
        lines = map(json.loads, (self.folder / objective / "metrics.jsonl").read_text().splitlines())
        rates = [line["tokens_per_s"] for line in lines if line.get("event") == "step"][WARM_UP:]
        print(f"{objective:5} {statistics.median(rates):10,.0f} tokens/s, {min(rates):,.0f} to {max(rates):,.0f}",
              flush=True)
        return statistics.median(rates)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n", 1)[1])
    parser.add_argument("strata", nargs="?", default=str(ROOT / "build/cpu-release/strata"))
    parser.add_argument("--config", default=str(ROOT / "configs/llama3-8b.json"))
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--objective", default="dpo")
    parser.add_argument("--folder")
    options = parser.parse_args()
    options.strata = str(Path(options.strata).resolve())
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        bench = Bench(options, Path(name))
        bench.make_data(options.tokens)
        plain = bench.tokens_per_s("sft")
        print(f"{options.objective} has {bench.tokens_per_s(options.objective) / plain:.3f} of fine-tuning's speed")


if __name__ == "__main__":
    main()
