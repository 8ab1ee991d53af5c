"""Goldens of adapters: one folder per case, beside the folder of the model whose layers are adapted.

adapter_config.json, adapter_model.safetensors   an adapter as PEFT saves it (f32, exact in bf16; B is not 0, and
                                 modules_to_save are not as the model has them); its base_model_name_or_path is that
                                 folder
expected.safetensors             what training it must give, all in f64:
  loss, grad_norm [steps]        of each step on the model's batches, before clipping
  grad/<name>, final/<name>      gradient of batch 0; what is trained after the last step, by PEFT's names

In QUANTISED the weights of the linears of layers are those that bitsandbytes makes of 4 bits (nf4.py), or PyTorch of
e4m3 and int8 (row_codes.py).

PEFT on the class of transformers gives all of it. That class computes norms, rotations and softmax in f32 whatever its
dtype is; here what it asks for as f32 is f64. With B = 0 it must then give the losses of the model's own golden file.
"""

import contextlib
import json

import peft
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import row_codes
from common import draw, generator, inverse_frequencies, require
from llama import HuggingFaceRunner, finish, rotary_width, rotations, train, windows

TOLERANCE = 1e-12
HEAD = "base_model.model.lm_head.weight"
LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
CASES = {
    "lora_mha": ("mha", {"r": 3, "lora_alpha": 6, "target_modules": "all-linear"}),
    "lora_qwen3": (
        "qwen3",
        {
            "r": 4,
            "lora_alpha": 8,
            "use_rslora": True,
            "target_modules": ["q_proj", "v_proj", "down_proj"],
            "rank_pattern": {"down_proj": 5},
            "alpha_pattern": {"v_proj": 3},
        },
    ),
    "lora_gemma3": (
        "gemma3",
        {"r": 2, "lora_alpha": 5, "target_modules": LINEARS, "layers_to_transform": [0, 2]},
    ),
    "lora_granite": (
        "granite",
        {"r": 8, "lora_alpha": 4, "target_modules": ["k_proj", "o_proj", "up_proj"]},
    ),
    "lora_nf4": ("mha", {"r": 2, "lora_alpha": 4, "target_modules": "all-linear"}),
    "lora_fp8": ("mha", {"r": 2, "lora_alpha": 4, "target_modules": "all-linear"}),
    "lora_int8": ("mha", {"r": 2, "lora_alpha": 4, "target_modules": "all-linear"}),
    "lora_whole_mha": (
        "mha",
        {"r": 2, "target_modules": ["q_proj"], "modules_to_save": ["embed_tokens", "lm_head", "model.norm"]},
    ),
    "lora_whole_qwen3": ("qwen3", {"r": 2, "target_modules": ["up_proj"], "modules_to_save": ["lm_head"]}),
    "lora_whole_olmo2": (
        "olmo2",
        {"r": 2, "target_modules": ["v_proj"], "modules_to_save": ["embed_tokens", "model.norm"]},
    ),
    "lora_whole_gemma3": (
        "gemma3",
        {
            "r": 2,
            "target_modules": ["o_proj"],
            "modules_to_save": ["embed_tokens", "model.norm"],
            "ensure_weight_tying": True,
        },
    ),
}


def in_4_bits(weight):
    import nf4  # needs bitsandbytes

    return nf4.quantised(weight)[1].double()


QUANTISED = {"lora_nf4": in_4_bits, "lora_fp8": row_codes.in_fp8, "lora_int8": row_codes.in_int8}


@contextlib.contextmanager
def f32_is_f64():
    names = ("float32", "float")
    before = {name: getattr(torch, name) for name in names}
    cast = torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(torch, name, value)
        torch.Tensor.float = cast


def quantise(model, rounded):
    for module in model.model.layers.modules():
        if isinstance(module, torch.nn.Linear):
            module.weight.data = rounded(module.weight.data)


class AdapterRunner(HuggingFaceRunner):
    """Runs a model of transformers with adapters of PEFT in f64; weights and gradients are of what is trained."""

    def __init__(self, folder, c, options, rounded):
        base = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager")
        if rounded:
            quantise(base, rounded)
        rotary = base.model.rotary_emb
        for layer, rope in enumerate(rotations(c)):  # which were computed in f32
            kind = "full" if windows(c)[layer] is None else "sliding"
            own = f"{kind}_attention_inv_freq"
            name = own if hasattr(rotary, own) else "inv_freq"
            setattr(rotary, name, inverse_frequencies(rotary_width(c), *rope))
        embedding = base.model.embed_tokens
        if hasattr(embedding, "embed_scale"):  # which is an f32 in every model but one of f64
            embedding.embed_scale = torch.tensor(c["hidden_size"] ** 0.5, dtype=torch.float32).double()
        self.model = peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", **options))
        self.model.train()

    def leaves(self):
        return {
            name.replace(".modules_to_save", "").replace(".default", ""): leaf
            for name, leaf in self.model.named_parameters()
            if leaf.requires_grad
        }

    def __call__(self, weights, batch):
        leaves = self.leaves()
        require(leaves.keys() == weights.keys(), f"names {sorted(leaves)}")
        with torch.no_grad():
            for name, leaf in leaves.items():
                leaf.copy_(weights[name])
                leaf.grad = None
        with f32_is_f64():
            logits = self.model(
                input_ids=batch["tokens"],
                position_ids=batch["positions"],
                attention_mask=self.masks(batch, torch.float64),
                use_cache=False,
            ).logits
            return finish(logits, batch, leaves)


def make_case(name, seed, goldens, folder):
    base, options = CASES[name]
    folder.mkdir(parents=True, exist_ok=True)
    config = json.loads((goldens / base / "config.json").read_text())
    known = load_file(goldens / base / "expected.safetensors")
    keys = ("tokens", "positions", "documents", "targets")
    batches = [{key: known[key][step].long() for key in keys} for step in range(len(known["loss"]))]
    rounded = QUANTISED.get(name)
    run = AdapterRunner(goldens / base, config, options, rounded)
    rng = generator(seed)
    model = {n: leaf.detach().clone() for n, leaf in run.leaves().items() if ".lora_" not in n}
    shapes = {n: leaf.shape for n, leaf in run.leaves().items()}
    weights = {n: draw(rng, *shape, std=0.5 * shape[-1] ** -0.5) for n, shape in sorted(shapes.items())}
    weights |= {n: (w + weights[n]).to(torch.bfloat16).double() for n, w in model.items()}

    nothing = {n: w * (0 if ".lora_B." in n else 1) for n, w in weights.items()} | model
    worst = abs(run(nothing, batches[0])["loss"].item() / known["loss"][0].item() - 1)
    print(f"{name}: without effect the loss differs by {worst:.1e}")
    if rounded:
        require(worst > TOLERANCE, f"{name}: nothing was rounded")
    else:
        require(worst < TOLERANCE, f"{name}: the loss of the model itself differs by {worst:.1e}")

    run(weights, batches[0])  # sets them
    run.model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    saved = load_file(folder / "adapter_model.safetensors")
    tied = {HEAD} if options.get("ensure_weight_tying") else set()  # saved once more
    require(saved.keys() == weights.keys() | tied, f"{name}: PEFT names {sorted(saved)}")
    save_file({n: w.float() for n, w in saved.items()}, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    settings = json.loads((folder / "adapter_config.json").read_text())
    settings["base_model_name_or_path"] = base
    (folder / "adapter_config.json").write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n")
    steps, final = train(run, {n: w.clone() for n, w in weights.items()}, batches)
    expected = {key: torch.stack([step[key].double() for step in steps]) for key in ("loss", "grad_norm")}
    expected |= {f"grad/{n}": g.double() for n, g in steps[0]["gradients"].items()}
    expected |= {f"final/{n}": w.double() for n, w in final.items()}
    save_file({n: t.contiguous() for n, t in expected.items()}, folder / "expected.safetensors")


def make(folder):
    """Makes all cases; models.make() comes before it."""
    for index, name in enumerate(CASES):
        make_case(name, 5000 + index, folder, folder / name)
