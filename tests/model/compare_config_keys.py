#!/usr/bin/env python3
"""Flips the keys of each family's config.json, one at a time, and checks that strata computes what transformers does
then, or refuses the folder: none may change what transformers computes and not what strata does.

  tests/model/compare_config_keys.py [STRATA]   this program (build/cpu-release/strata)
    --only TEXT   golden models whose name has this text
    --all         print a line for each key, not only for those that are wrong

The models are those of tests/golden/data. A key is any that transformers' class of the config knows, in the file or not.
It gets another value of its type; where it is null or a list also values that other families have there. Values that
transformers refuses, or with which the weights do not fit, say nothing and are skipped. The loss of one row in f64 tells
whether a value changes what is computed: by transformers here, by strata in a step of training. The exit code is 1 if
a value is wrong. It needs torch, transformers, safetensors and numpy: CI has no torch, so it is run by hand.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests/golden/data"
TOKENS = 24
# What says who made a file and how, and what programs do with a model: nothing that is computed in a row.
NAMES = {"architectures", "model_type", "transformers_version", "dtype", "torch_dtype", "_name_or_path", "id2label",
         "label2id", "problem_type", "return_dict", "output_attentions", "output_hidden_states", "use_cache",
         "chunk_size_feed_forward", "is_encoder_decoder", "is_decoder", "add_cross_attention", "tie_word_embeddings",
         "bos_token_id", "eos_token_id", "pad_token_id", "_attn_implementation", "initializer_range"}
OF_OTHERS = {
    "rope_parameters": [{"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0},
                        {"rope_type": "default", "rope_theta": 500.0}],
    "sliding_window": [5], "layer_types": [], "hidden_act": ["gelu", "relu", "gelu_pytorch_tanh"],
    "hidden_activation": ["gelu", "silu", "relu"], "no_rope_layers": [], "attn_logit_softcapping": [2.0],
    "final_logit_softcapping": [3.0], "query_pre_attn_scalar": [11], "max_window_layers": [0, 1],
}


def flipped(key, value, layers):
    """Returns other values for a key."""
    found = list(OF_OTHERS.get(key, []))
    if key == "layer_types":
        found += [["full_attention"] * layers, ["sliding_attention"] * layers]
    elif key == "no_rope_layers":
        found += [[0] * layers, [1] * layers]
    elif isinstance(value, bool):
        found.append(not value)
    elif isinstance(value, int):
        found += [value + 1, max(1, value // 2)]
    elif isinstance(value, float):
        found += [value * 2 + 0.25, 0.0]
    return [other for other in found if other != value]


def loss_of(folder, tokens):
    """Returns the loss of transformers in f64; None if it takes no such config or the weights do not fit it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            config = transformers.AutoConfig.from_pretrained(folder)
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float64).eval()
        weights = load_file(folder / "model.safetensors")
        missing, unexpected = model.load_state_dict(weights, strict=False)
        if unexpected or [name for name in missing if name != "lm_head.weight"]:
            return None
        model.tie_weights()
        with torch.no_grad():
            logits = model(tokens[None, :-1]).logits[0]
            return float(torch.nn.functional.cross_entropy(logits, tokens[1:]))
    except Exception:  # whatever the class of the family raises
        return None


def strata_loss(program, folder, tokens):
    """Returns the loss of a step in f64, or the error with which strata refuses the folder."""
    run = folder.parent / "run"
    shutil.rmtree(run, ignore_errors=True)
    tokens.numpy().astype("<u2").tofile(folder.parent / "tokens.bin")
    config = {"run": {"steps": 1, "dtype": "f64", "backend": "cpu", "threads": 1, "output": str(run)},
              "model": {"path": str(folder)},
              "data": {"train": str(folder.parent / "tokens.bin"), "dtype": "u16", "sequence_length": len(tokens) - 1},
              "schedule": {"rows": 1, "sub_batches": 1}, "checkpoint": {"at_end": False}}
    (folder.parent / "run.json").write_text(json.dumps(config))
    done = subprocess.run([program, "train", folder.parent / "run.json"], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode:
        return done.stdout.strip().splitlines()[-1]
    steps = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return next(step["loss"] for step in steps if "loss" in step)


def check(program, name, show_all, folder):
    """Returns how many values were tried, and how many were wrong."""
    golden = json.loads((GOLDENS / name / "config.json").read_text())
    model = folder / "model"
    shutil.rmtree(model, ignore_errors=True)
    shutil.copytree(GOLDENS / name, model)
    tokens = torch.from_numpy(np.random.default_rng(1).integers(0, golden["vocab_size"], TOKENS + 1))
    before = loss_of(model, tokens)
    ours = strata_loss(program, model, tokens)
    if before is None or not isinstance(ours, float) or abs(ours - before) > 1e-6 * before:
        print(f"{name}: transformers {before}, strata {ours}", flush=True)
        return 1, 1
    known = transformers.AutoConfig.from_pretrained(model).to_dict()
    tried = wrong = 0
    for key in sorted((set(known) | set(golden)) - NAMES):
        value = golden.get(key, known.get(key))
        for other in flipped(key, value, golden["num_hidden_layers"]):
            (model / "config.json").write_text(json.dumps(golden | {key: other}))
            after = loss_of(model, tokens)
            if after is None or not np.isfinite(after):
                continue
            tried += 1
            found = strata_loss(program, model, tokens)
            right = not isinstance(found, float) or abs(found - after) <= 1e-6 * abs(after)
            wrong += not right
            if show_all or not right:
                what = f"{found:.9f}" if isinstance(found, float) else f"refused: {found[-100:]}"
                print(f"{'' if right else 'WRONG '}{name}: {key} {value} -> {other}: transformers "
                      f"{'the same' if after == before else f'{after:.9f}'}, strata {what}", flush=True)
    return tried, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata", nargs="?", default=ROOT / "build/cpu-release/strata", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    tried = wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(GOLDENS.glob("*/config.json")):
            if options.only in path.parent.name:
                counts = check(options.strata.resolve(), path.parent.name, options.all, Path(folder))
                tried, wrong = tried + counts[0], wrong + counts[1]
    print(f"transformers {transformers.__version__}: {tried} values tried, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
