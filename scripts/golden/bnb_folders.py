"""Goldens of models whose linears are in 4 bits already: one folder per case, as transformers saves them.

config.json, model.safetensors   a model with weights of bitsandbytes (nf4, double quantisation)
adapter_config.json, adapter_model.safetensors, expected.safetensors
                                 what training over the weights that bitsandbytes makes of them must give, as
                                 adapters.py says; also decoded/<name>, those weights, where they are in bf16

bnb_matrices.safetensors         matrices NAME.weight that are quantised in other ways (blocks, scales, dtypes), with
                                 NAME.decoded, what bitsandbytes makes of them

A model in f32 gives numbers that nothing rounds but their scale; one in bf16 those that are in the files of users. The
metadata of expected.safetensors and bnb_matrices.safetensors has the version of bitsandbytes.
"""

import json
import tempfile
from pathlib import Path

import bitsandbytes
import peft
import torch
from bitsandbytes import functional
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

import models
from adapters import AdapterRunner
from common import draw, generator
from llama import train

MADE_BY = {"bitsandbytes": bitsandbytes.__version__}
STATE = ".quant_state.bitsandbytes__nf4"
PHI3 = {"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "pad_token_id": None, "sliding_window": None}
CASES = {  # the model with the batches, the config, the dtype of the weights, the adapters
    "bnb_mha": ("mha", models.MODELS["mha"].config, torch.float32, ["q_proj", "v_proj", "down_proj"]),
    "bnb_phi3": ("phi3", models.config(75, 32, 32, 1, 4, 2, **PHI3), torch.bfloat16, ["qkv_proj", "down_proj"]),
}


def decoded(tensors, name):
    """Returns what bitsandbytes makes of a quantised matrix of a file."""
    parts = {key[len(name) + 1 :]: value for key, value in tensors.items() if key.startswith(name + ".")}
    state = functional.QuantState.from_dict(parts, device="cpu")
    shape = state.shape
    state.shape = torch.Size([1, shape.numel()])  # what decodes on a CPU takes no rows shorter than a block
    return functional.dequantize_4bit(tensors[name].reshape(-1, 1), state).reshape(shape)


def quantise(config, weights, dtype, folder):
    """Saves a model as users do who load it in 4 bits."""
    with tempfile.TemporaryDirectory() as plain:
        save_model(config, weights, Path(plain))
        settings = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype
        )
        model = AutoModelForCausalLM.from_pretrained(plain, dtype=dtype, quantization_config=settings, device_map="cpu")
        model.save_pretrained(folder)
    (folder / "generation_config.json").unlink()


def save_model(config, weights, folder):
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file({n: w.float() for n, w in weights.items()}, folder / "model.safetensors", metadata={"format": "pt"})


def make_case(name, seed, goldens, folder):
    base, config, dtype, targets = CASES[name]
    folder.mkdir(parents=True, exist_ok=True)
    rng = generator(seed)
    quantise(config, models.draw_weights(config, rng), dtype, folder)
    stored = load_file(folder / "model.safetensors")
    packed = {n.removesuffix(STATE) for n in stored if n.endswith(STATE)}
    matrices = {n: decoded(stored, n) for n in sorted(packed)}
    others = {n: w for n, w in stored.items() if n.split(".weight")[0] + ".weight" not in packed}

    known = load_file(goldens / base / "expected.safetensors")
    keys = ("tokens", "positions", "documents", "targets")
    batches = [{key: known[key][step].long() for key in keys} for step in range(len(known["loss"]))]
    with tempfile.TemporaryDirectory() as plain:
        save_model(config, others | matrices, Path(plain))
        run = AdapterRunner(plain, config, {"r": 2, "lora_alpha": 4, "target_modules": targets}, None)
    weights = {n: draw(rng, *leaf.shape, std=0.5 * leaf.shape[1] ** -0.5) for n, leaf in sorted(run.leaves().items())}
    run(weights, batches[0])  # sets them
    run.model.peft_config["default"].save_pretrained(folder)
    settings = json.loads((folder / "adapter_config.json").read_text())
    settings |= {"base_model_name_or_path": name, "target_modules": targets}
    (folder / "adapter_config.json").write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n")
    state = peft.get_peft_model_state_dict(run.model, save_embedding_layers=False)
    adapter = {n: w.float() for n, w in state.items()}
    save_file({n: w.contiguous() for n, w in adapter.items()}, folder / "adapter_model.safetensors")
    steps, final = train(run, {n: w.clone() for n, w in weights.items()}, batches)
    print(f"{name}: losses {[step['loss'].item() for step in steps]}")
    expected = {key: torch.stack([step[key].double() for step in steps]) for key in ("loss", "grad_norm")}
    expected |= {f"grad/{n}": g.double() for n, g in steps[0]["gradients"].items()}
    expected |= {f"final/{n}": w.double() for n, w in final.items()}
    if dtype == torch.bfloat16:
        expected |= {f"decoded/{n}": w for n, w in matrices.items()}
    save_file({n: t.contiguous() for n, t in expected.items()}, folder / "expected.safetensors", metadata=MADE_BY)


def make_matrices(file):
    """A block is the last part of a matrix where it has no whole number of them; two groups of scales are there."""
    rng = generator(7100)
    tensors = {}
    for name, shape, dtype, block, nested in (
        ("groups", (132, 64), torch.bfloat16, 32, True),
        ("half", (12, 50), torch.float16, 64, True),
        ("single", (9, 26), torch.bfloat16, 128, False),
    ):
        weight = draw(rng, *shape, std=0.05).to(dtype).reshape(1, -1)
        codes, state = functional.quantize_4bit(weight, blocksize=block, compress_statistics=nested, quant_type="nf4")
        state.shape = torch.Size(shape)
        own = {f"{name}.weight": codes} | {f"{name}.weight.{k}": v for k, v in state.as_dict(packed=True).items()}
        tensors |= own | {f"{name}.decoded": decoded(own, f"{name}.weight")}
    save_file({n: t.contiguous() for n, t in tensors.items()}, file, metadata=MADE_BY)


def make(folder):
    """Makes all; models.make() comes before it."""
    for index, name in enumerate(CASES):
        make_case(name, 7000 + index, folder, folder / name)
    make_matrices(folder / "bnb_matrices.safetensors")
