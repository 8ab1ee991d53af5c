#!/usr/bin/env python3
"""Compares gradients of strata in bf16 with f64, and with what PyTorch in bf16 makes of the same model and tokens.

  scripts/measure/gradients.py [STRATA]   this program (build/cpu-release/strata)
    --only TEXT      golden models whose name has this text
    --seed N         of weights and tokens (1)
    --tokens N       of a row (1024)

The models are those of tests/golden/data, with the same keys and a wider shape: 4 layers, heads of 128 (a Gemma's of
256), windows of 200. The classes of transformers compute the reference in f64 and the peer in bf16, on the GPU if there
is one. A model whose class the installed transformers lacks is left out, and said.

strata prints no gradients. From moments of zero AdamW's first step changes a weight by lr * g / (|g| + eps): with an eps
of 1e6 and as large a learning rate that is g. The files that a run exports in f32 show it, less the weights before.

For each model the table has the relative error (2-norm, all tensors together) of PyTorch and of strata, and their
ratio; then the largest ratio of one tensor's errors. It needs torch, transformers, safetensors and numpy.
"""

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests/golden/data"
ROWS = 2
LAYERS = 4
VOCABULARY = 4096
LARGE = 1e6
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def widened(config):
    """Returns the config of a golden model in the shape that is measured here."""
    wide = config["model_type"].startswith("gemma")
    size = 256 if wide else 128
    new = config | {"hidden_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 1408,
                    "num_hidden_layers": LAYERS, "vocab_size": VOCABULARY, "max_position_embeddings": 4096}
    if "head_dim" in config or wide:
        new["head_dim"] = size
    if config.get("query_pre_attn_scalar"):
        new["query_pre_attn_scalar"] = size
    if config.get("sliding_window"):
        new["sliding_window"] = 200
    for key in ("layer_types", "no_rope_layers"):
        if config.get(key):
            new[key] = [config[key][i % len(config[key])] for i in range(LAYERS)]
    if config.get("max_window_layers"):
        new["max_window_layers"] = 1
    scaling = config.get("rope_scaling")
    if scaling and "long_factor" in scaling:
        pairs = int(size * config.get("partial_rotary_factor", 1)) // 2
        new["rope_scaling"] = scaling | {
            key: [1 + i * (scaling[key][-1] - 1) / (pairs - 1) for i in range(pairs)]
            for key in ("short_factor", "long_factor")}
    return new


def draw_weights(model, generator):
    """Sets weights to values that bf16 holds exactly; norms and biases are not what they begin with."""
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            drawn = 0.02 * noise if parameter.dim() > 1 else parameter.float() + 0.1 * noise
            parameter.copy_(drawn.bfloat16())


def torch_gradients(model, tokens, dtype):
    """Returns the loss's gradients by name, in f64 on the CPU."""
    model = model.to(DEVICE, dtype)
    model.zero_grad()
    inputs = tokens.to(DEVICE)
    logits = model(inputs[:, :-1]).logits
    loss_dtype = torch.promote_types(dtype, torch.float32)
    loss = torch.nn.functional.cross_entropy(logits.to(loss_dtype).flatten(0, 1), inputs[:, 1:].flatten())
    loss.backward()
    return {name: parameter.grad.double().cpu() for name, parameter in model.named_parameters()}


def strata_gradients(program, folder, weights, tokens):
    """Returns what a step of strata gives for the model in folder/model, by name, in f64."""
    row = tokens.shape[1] - 1
    # Rows follow each other with a token between them, which is the last target of one and the first of the next.
    flat = torch.cat([tokens[0]] + [tokens[i][1:] for i in range(1, ROWS)])
    flat.numpy().astype("<u2").tofile(folder / "tokens.bin")
    config = {
        "run": {"steps": 1, "dtype": "bf16", "output": str(folder / "run"), "backend": DEVICE},
        "model": {"path": str(folder / "model")},
        "data": {"train": str(folder / "tokens.bin"), "dtype": "u16", "sequence_length": row},
        "schedule": {"rows": 1, "sub_batches": ROWS},
        "optimizer": {"lr": LARGE, "eps": LARGE, "weight_decay": 0, "grad_clip": None, "gradient_dtype": "f32"},
    }
    (folder / "run.json").write_text(json.dumps(config))
    for command in (["train", folder / "run.json"], ["export", folder / "run", folder / "out", "--dtype", "f32"]):
        done = subprocess.run([program, *map(str, command)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            sys.exit(f"{folder.name}: {done.stdout[-3000:]}")
    after = {}
    for file in sorted((folder / "out").glob("*.safetensors")):
        after |= load_file(file)
    return {name: weights[name].double() - after[name].double() for name in weights}


def error(found, reference, names):
    """Returns the relative 2-norm of the difference over the tensors."""
    squares = sum(float((found[name] - reference[name]).square().sum()) for name in names)
    return math.sqrt(squares / sum(float(reference[name].square().sum()) for name in names))


def measure(program, config, options, folder):
    """Returns the errors of PyTorch and of strata, and the largest ratio of one tensor with its name."""
    folder.mkdir()
    (folder / "model").mkdir()
    (folder / "model/config.json").write_text(json.dumps(config))
    generator = torch.Generator().manual_seed(options.seed)
    model = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.from_pretrained(folder / "model"), dtype=torch.float32)
    draw_weights(model, generator)
    tokens = torch.randint(0, VOCABULARY, (ROWS, options.tokens + 1), generator=generator)
    tokens[1:, 0] = tokens[:-1, -1]
    weights = {key: value.detach().clone() for key, value in model.named_parameters()}
    save_file(weights, folder / "model/model.safetensors", metadata={"format": "pt"})
    reference = torch_gradients(model, tokens, torch.float64)
    peer = torch_gradients(model, tokens, torch.bfloat16)
    ours = strata_gradients(program, folder, weights, tokens)
    # A bias of keys hardly has a gradient, for softmax does not see a shift: only rounding is left of it.
    norm = {key: float(value.norm()) for key, value in reference.items()}
    typical = float(np.median(list(norm.values())))
    single = {key: error(ours, reference, [key]) / error(peer, reference, [key])
              for key in reference if norm[key] > 1e-3 * typical}
    worst = max(single, key=single.get)
    return error(peer, reference, reference), error(ours, reference, reference), single[worst], worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata", nargs="?", default=ROOT / "build/cpu-release/strata", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=1024)
    options = parser.parse_args()
    program = options.strata.resolve()
    device = torch.cuda.get_device_name() if DEVICE == "cuda" else "the CPU"
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {device}", flush=True)
    print("| model | PyTorch's error | strata's | ratio | of one tensor at most |\n|---|---|---|---|---|", flush=True)
    folder = Path(tempfile.mkdtemp())
    seen = []
    try:
        for path in sorted(GOLDENS.glob("*/config.json")):
            name = path.parent.name
            shape = widened(json.loads(path.read_text()))
            if options.only not in name or shape in seen:
                continue
            seen.append(shape)
            try:
                peer, ours, worst, tensor = measure(program, shape, options, folder / name)
            except (ValueError, KeyError) as reason:  # as transformers says that it has no such class
                print(f"| {name} | left out: {str(reason).splitlines()[0][:90]} | | | |", flush=True)
                continue
            print(f"| {name} | {peer:.3e} | {ours:.3e} | {ours / peer:.2f} | {worst:.2f} ({tensor}) |", flush=True)
            shutil.rmtree(folder / name)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
