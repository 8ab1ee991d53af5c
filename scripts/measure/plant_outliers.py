#!/usr/bin/env python3
"""Gives channels of activations 128 times their size, by weights, in a model of the LLaMA family.

  scripts/measure/plant_outliers.py MODEL [--channels N] [--seed N]
    MODEL         a Hugging Face folder, whose files are changed; needs Python with PyTorch and safetensors
    --channels N  so many channels in front of q, k and v, of gate and up, and of down, in each layer (8)
    --seed N      which channels (1)

The weights of norms and the rows of up that make such a channel are multiplied by 128, and the columns that read it are
divided by it: the model computes what it did, to the bit in bf16 but for the order of sums, with outliers on the way.
"""

import argparse
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

FACTOR = 128.0  # a power of two, by which bf16 multiplies exactly


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--channels", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    files = {path: safe_open(path, "pt") for path in options.model.glob("*.safetensors")}
    weights = {name: file.get_tensor(name) for file in files.values() for name in file.keys()}
    random = torch.Generator().manual_seed(options.seed)

    def plant(makes, read_by):
        """Multiplies some entries, or rows, of one weight, and divides the columns of those that read them."""
        channels = torch.randperm(len(weights[makes]), generator=random)[: options.channels]
        weights[makes][channels] *= FACTOR
        for name in read_by:
            weights[name][:, channels] /= FACTOR

    layers = sorted(name.rsplit(".", 2)[0] for name in weights if name.endswith(".input_layernorm.weight"))
    for layer in layers:
        plant(f"{layer}.input_layernorm.weight",
              [f"{layer}.self_attn.{linear}_proj.weight" for linear in ("q", "k", "v")])
        plant(f"{layer}.post_attention_layernorm.weight",
              [f"{layer}.mlp.{linear}_proj.weight" for linear in ("gate", "up")])
        plant(f"{layer}.mlp.up_proj.weight", [f"{layer}.mlp.down_proj.weight"])
    for path, file in files.items():
        save_file({name: weights[name] for name in file.keys()}, path, file.metadata())
    print(f"{options.model}: {options.channels} channels at each of 3 places of {len(layers)} layers")


if __name__ == "__main__":
    main()
