#!/usr/bin/env python3
"""Trains adapters in f32, exports them, and has PEFT itself read them over the model that they are for, with rows for
more tokens where the run has them: a text must have the loss that strata finds for the run. What strata exports with
the adapters added must have it as well. Then PEFT adds tokens to a model and saves adapters with embedding and head,
and a run that begins with that folder, and learns nothing, must export what has PEFT's loss.

  export_peft_test.py STRATA CONFIGS    exit code 77 if there is no PEFT
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import torch
    from peft import LoraConfig, PeftModel, get_peft_model
    from transformers import AutoModelForCausalLM
except ImportError:
    print("skipped: this Python has no PEFT (pip install torch transformers peft, and -DSTRATA_PYTHON=PYTHON)")
    sys.exit(77)

TEXT = "".join(f"line {i} of a text: some words, and {i * i} others\n" for i in range(8))
ROWS = 300  # where tokens were added; the models have 257
CASES = {
    "plain": ["adapter.rank=3", "adapter.alpha=6"],
    "patterns": [
        "adapter.rank=4",
        "adapter.alpha=8",
        "adapter.rslora=true",
        'adapter.targets=["q_proj","v_proj","down_proj"]',
        'adapter.rank_pattern=["down_proj=5"]',
        'adapter.alpha_pattern=["v_proj=3","layers.1.self_attn.q_proj=2"]',
        "adapter.layers=[0,1,3]",
    ],
    "whole": ["adapter.rank=3", 'adapter.modules_to_save=["embed_tokens","lm_head"]'],
    "norm": ["adapter.rank=3", 'adapter.modules_to_save=["norm"]'],
    "rows": ["adapter.rank=3", 'adapter.modules_to_save=["embed_tokens","lm_head"]', f"model.vocab_size={ROWS}"],
    "tied": ["adapter.rank=3", 'adapter.modules_to_save=["lm_head"]'],
}


def loss(model):
    ids = torch.tensor([list(TEXT.encode())])
    with torch.no_grad():
        return model(input_ids=ids, labels=ids).loss.item()


def base_of(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


def save_grown(folder, to, tied):
    """Saves adapters for a model with more tokens, which are not 0, and returns the loss that they have."""
    model = base_of(folder)
    model.resize_token_embeddings(ROWS)
    modules = ["embed_tokens"] if tied else ["embed_tokens", "lm_head"]
    options = LoraConfig(r=3, target_modules=["q_proj"], modules_to_save=modules, ensure_weight_tying=tied,
                         task_type="CAUSAL_LM")
    model = get_peft_model(model, options)
    torch.manual_seed(1)
    with torch.no_grad():
        for leaf in model.parameters():
            if leaf.requires_grad:
                leaf.add_(0.1 * torch.randn_like(leaf))
    model.save_pretrained(to)
    return loss(model)


def check(strata, configs, scratch):
    def run(*arguments):
        done = subprocess.run([strata, *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def train(name, *settings):
        sets = [word for setting in settings for word in ("--set", setting)]
        run("train", f"{configs}/tiny-cpu.json", "--output", scratch / name, "--set", "run.steps=6", "--set",
            "optimizer.warmup_steps=1", "--set", "run.dtype=f32", "--set", "checkpoint.at_end=true", "--set",
            "model.max_position_embeddings=512", *sets)

    text = scratch / "text.txt"
    text.write_text(TEXT)
    for name, tied in (("base", "false"), ("tied-base", "true")):
        train(f"first-{name}", f"model.tie_word_embeddings={tied}")
        run("export", scratch / f"first-{name}", scratch / name, "--dtype", "f32")
    for name, settings in CASES.items():
        folder = scratch / ("tied-base" if name == "tied" else "base")
        train(name, f"model.path={folder}", "optimizer.lr=0.02", *settings)
        run("export", "--adapter-only", scratch / name, scratch / f"{name}-peft", "--dtype", "f32")
        run("export", scratch / name, scratch / f"{name}-merged", "--dtype", "f32")
        base = loss(base_of(folder))
        merged_model = base_of(scratch / f"{name}-merged")
        merged = loss(merged_model)
        model = base_of(folder)
        if model.config.vocab_size < merged_model.config.vocab_size:
            model.resize_token_embeddings(merged_model.config.vocab_size)
        peft = loss(PeftModel.from_pretrained(model, scratch / f"{name}-peft"))
        found = {"merged": merged}
        if name != "rows":  # which no tokenizer has tokens for
            line = json.loads(run("evaluate", scratch / name, "--input", text, "--context", len(TEXT)))
            assert line["tokens"] == len(TEXT) - 1, line
            found["strata"] = line["loss"]
        print(f"{name}: the model {base:.6f}; PEFT {peft:.6f}, {found}")
        assert abs(base - peft) > 1e-3
        for value in found.values():
            assert abs(value - peft) < 1e-5 * peft, name
    for name, tied in (("base", False), ("tied-base", True)):
        peft = save_grown(scratch / name, scratch / f"{name}-grown", tied)
        train(f"{name}-on", f"model.path={scratch / name}", f"model.vocab_size={ROWS}",
              f"adapter.path={scratch / name}-grown", "optimizer.lr=0")
        run("export", f"{scratch / name}-on", f"{scratch / name}-merged", "--dtype", "f32")
        merged = loss(base_of(f"{scratch / name}-merged"))
        print(f"{name} with more tokens: PEFT {peft:.6f}, merged {merged:.6f}")
        assert abs(merged - peft) < 1e-5 * peft, name


torch.set_num_threads(1)
with tempfile.TemporaryDirectory() as scratch_folder:
    check(sys.argv[1], sys.argv[2], Path(scratch_folder))
