"""LLaMA twice, and the training loop around it.

small_llama is the reference: written here from the papers, f64 from end to end. The other is the class
of transformers that the config names; it computes norms, softmax and rotary angles in f32 whatever its dtype.
"""

import math

import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM

from common import inverse_frequencies, relative_error, require, rotate, rotate_neighbours

IGNORE = -100
OPTIMIZER = {
    "lr": 3e-3,
    "beta1": 0.9,
    "beta2": 0.95,
    "eps": 1e-8,
    "weight_decay": 0.1,
    "clip": 0.5,
}


def head_dim(c):
    return c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]


def rotary_width(c):
    return int(head_dim(c) * c.get("partial_rotary_factor", 1))


def rotary_magnitude(c):
    """What longrope multiplies cosines and sines by."""
    scaling = c["rope_scaling"] or {}
    if scaling.get("rope_type") != "longrope":
        return 1.0
    original = c["original_max_position_embeddings"]
    return (1 + math.log(c["max_position_embeddings"] / original) / math.log(original)) ** 0.5


def visible(batch):
    """[rows, T, T]: which keys a query sees: its own document's, up to itself."""
    documents = batch["documents"]
    same = documents[:, :, None] == documents[:, None, :]
    return same & torch.ones_like(same).tril()


BY_LAYER = ("gemma2", "gemma3_text", "olmo3", "exaone4", "ministral")  # some of whose layers have windows, without a switch


def windows(c):
    """How many keys a query of each layer sees at most; None: all."""
    layers = c["num_hidden_layers"]
    if c["model_type"] == "mistral":
        return [c["sliding_window"]] * layers
    if not c.get("use_sliding_window") and c["model_type"] not in BY_LAYER:
        return [None] * layers
    kinds = c.get("layer_types") or [
        "sliding_attention" if i >= c["max_window_layers"] else "full_attention" for i in range(layers)
    ]
    return [c["sliding_window"] if kind == "sliding_attention" else None for kind in kinds]


def rotations(c):
    """Theta and scaling of each layer; None: it does not rotate."""
    plain = [(c["rope_theta"], c["rope_scaling"])] * c["num_hidden_layers"]
    layers = zip(plain, windows(c))
    if c["model_type"] == "gemma3_text":
        return [(c["rope_local_base_freq"], None) if window else rope for rope, window in layers]
    if c["model_type"] == "olmo3":
        return [(c["rope_theta"], None) if window else rope for rope, window in layers]
    if c["model_type"] == "exaone4" and c["sliding_window"]:
        return [rope if window else None for rope, window in layers]
    flags = c.get("no_rope_layers", [1] * c["num_hidden_layers"])
    return [rope if flag else None for rope, flag in zip(plain, flags)]


def capped(x, cap):
    return x if cap is None else cap * torch.tanh(x / cap)


def seen_through(window, mask):
    """The part of a mask [..., T, T] that a window leaves: the key of a query and those right before it."""
    if window is None:
        return mask
    query, key = (torch.arange(mask.shape[-1]).view(shape) for shape in ((-1, 1), (1, -1)))
    return mask & (query - key < window)


def unfused(c, weights):
    """The weights under a LLaMA's names: q, k, v, gate and up each by itself."""
    if c["model_type"] not in ("phi3", "glm4"):
        return weights
    queries, keys = (c[heads] * head_dim(c) for heads in ("num_attention_heads", "num_key_value_heads"))
    result = {}
    for name, weight in weights.items():
        if name.endswith("qkv_proj.weight"):
            parts = zip("qkv", weight.split((queries, keys, keys)))
            result |= {name.replace("qkv", letter): part for letter, part in parts}
        elif name.endswith("gate_up_proj.weight"):
            gate, up = weight.chunk(2)
            result |= {name.replace("gate_up", "gate"): gate, name.replace("gate_up", "up"): up}
        else:
            result[name] = weight
    return result


def norm_names(c):
    """What the norms before and after attention are called, and those before and after the MLP; "" where there is none."""
    if c["model_type"] in ("olmo2", "olmo3", "exaone4"):
        return "", "post_attention_layernorm", "", "post_feedforward_layernorm"
    if c["model_type"] in ("gemma2", "gemma3_text"):
        return (
            "input_layernorm",
            "post_attention_layernorm",
            "pre_feedforward_layernorm",
            "post_feedforward_layernorm",
        )
    if c["model_type"] == "glm4":
        return "input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm"
    return "input_layernorm", "", "post_attention_layernorm", ""


def embedding_scale(c):
    if c["model_type"].startswith("gemma"):
        return torch.tensor(c["hidden_size"] ** 0.5, dtype=torch.float32).double()
    return c.get("embedding_multiplier", 1)


def activation(c, x):
    """What the gate goes through, by its definition."""
    if c["hidden_act"] == "gelu_pytorch_tanh":
        return x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))) / 2
    return x * x.sigmoid()


def small_llama(c, weights, batch):
    """Logits of LLaMA, written from the papers, in the dtype of the weights."""
    rows, length = batch["tokens"].shape
    dim, heads, kv_heads = head_dim(c), c["num_attention_heads"], c["num_key_value_heads"]
    mask = visible(batch)[:, None]

    def norm(x, name):
        mean_square = x.pow(2).mean(-1, keepdim=True)
        gain = weights[name + ".weight"] + (1 if c["model_type"].startswith("gemma") else 0)
        return x / (mean_square + c["rms_norm_eps"]).sqrt() * gain

    def linear(x, name):
        return x @ weights[name + ".weight"].T + weights.get(name + ".bias", 0)

    turn = rotate_neighbours if c["model_type"] == "glm4" else rotate
    before_attention, after_attention, before_mlp, after_mlp = norm_names(c)

    def turned(x, theta, scaling):
        width = rotary_width(c)
        angles = batch["positions"][..., None, None] * inverse_frequencies(width, theta, scaling)
        cos, sin = (rotary_magnitude(c) * part for part in (angles.cos(), angles.sin()))
        return torch.cat((turn(x[..., :width], cos, sin), x[..., width:]), dim=-1)

    branch = c.get("residual_multiplier", 1)
    scale = c.get("attention_multiplier", c.get("query_pre_attn_scalar", dim) ** -0.5)
    x = weights["model.embed_tokens.weight"][batch["tokens"]] * embedding_scale(c)
    for layer in range(c["num_hidden_layers"]):
        at = f"model.layers.{layer}."

        def optional(x, name):
            return norm(x, at + name) if name else x

        h = optional(x, before_attention)
        q, k = linear(h, at + "self_attn.q_proj"), linear(h, at + "self_attn.k_proj")
        if c["model_type"] in ("olmo2", "olmo3"):
            q, k = norm(q, at + "self_attn.q_norm"), norm(k, at + "self_attn.k_norm")
        q, k = q.view(rows, length, heads, dim), k.view(rows, length, kv_heads, dim)
        v = linear(h, at + "self_attn.v_proj").view(rows, length, kv_heads, dim)
        if c["model_type"] in ("qwen3", "exaone4", "gemma3_text"):
            q, k = norm(q, at + "self_attn.q_norm"), norm(k, at + "self_attn.k_norm")
        if rotations(c)[layer]:
            q, k = (turned(t, *rotations(c)[layer]) for t in (q, k))
        k, v = (t.repeat_interleave(heads // kv_heads, dim=2) for t in (k, v))
        scores = torch.einsum("rthd,rshd->rhts", q, k) * scale
        scores = capped(scores, c.get("attn_logit_softcapping"))
        hidden = ~seen_through(windows(c)[layer], mask)
        shares = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        o = torch.einsum("rhts,rshd->rthd", shares, v).reshape(rows, length, heads * dim)
        x = x + optional(branch * linear(o, at + "self_attn.o_proj"), after_attention)
        h = optional(x, before_mlp)
        gate, up = linear(h, at + "mlp.gate_proj"), linear(h, at + "mlp.up_proj")
        down = branch * linear(activation(c, gate) * up, at + "mlp.down_proj")
        x = x + optional(down, after_mlp)
    x = norm(x, "model.norm")
    logits = linear(x, "model.embed_tokens" if c["tie_word_embeddings"] else "lm_head")
    return capped(logits / c.get("logits_scaling", 1), c.get("final_logit_softcapping"))


class SmallRunner:
    """Runs small_llama in f64."""

    def __init__(self, c):
        self.config = c

    def __call__(self, weights, batch):
        leaves = {name: w.detach().clone().requires_grad_() for name, w in weights.items()}
        logits = small_llama(self.config, unfused(self.config, leaves), batch)
        return finish(logits, batch, leaves)


class HuggingFaceRunner:
    """Runs the class of transformers that the folder names, in `dtype`."""

    def __init__(self, folder, c, dtype):
        self.model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, attn_implementation="eager"
        )
        self.model.train()
        rotary = self.model.model.rotary_emb
        for layer, rope in enumerate(rotations(c)):
            if rope is None:
                continue
            kind = "full" if windows(c)[layer] is None else "sliding"
            frequencies = getattr(rotary, f"{kind}_attention_inv_freq", None)
            frequencies = rotary.inv_freq if frequencies is None else frequencies
            expected = inverse_frequencies(rotary_width(c), *rope)
            require(
                relative_error(frequencies, expected).item() < 1e-6,
                f"rotary frequencies of {folder}: {frequencies} against {expected}",
            )

    def __call__(self, weights, batch):
        leaves = dict(self.model.named_parameters())
        require(leaves.keys() == weights.keys(), f"names {sorted(leaves)}")
        dtype = self.model.dtype
        with torch.no_grad():
            for name, leaf in leaves.items():
                leaf.copy_(weights[name])
                leaf.grad = None
        logits = self.model(
            input_ids=batch["tokens"],
            position_ids=batch["positions"],
            attention_mask=self.masks(batch, dtype),
            use_cache=False,
        ).logits
        return finish(logits, batch, leaves)


    def masks(self, batch, dtype):
        """What attention adds to scores: of one document nothing, as the class masks that itself."""
        if not batch["documents"].any():
            return None
        c = self.model.config.to_dict() | {"model_type": self.model.config.model_type}

        def of(window):
            seen = seen_through(window, visible(batch))
            mask = torch.zeros(seen.shape, dtype=dtype)
            return mask.masked_fill(~seen, torch.finfo(dtype).min)[:, None]

        if not c.get("use_sliding_window") and c["model_type"] not in BY_LAYER:
            return of(c.get("sliding_window") if c["model_type"] == "mistral" else None)
        return {"full_attention": of(None), "sliding_attention": of(c["sliding_window"])}


def finish(logits, batch, leaves):
    """Mean loss over the valid tokens of the batch, and gradients."""
    targets = batch["targets"]
    wide = logits if logits.dtype == torch.float64 else logits.float()
    losses = F.cross_entropy(wide.flatten(0, 1), targets.flatten(), reduction="none")
    loss = losses.sum() / (targets != IGNORE).sum()
    loss.backward()
    return {
        "logits": logits.detach(),
        "token_loss": losses.detach().view(targets.shape),
        "loss": loss.detach(),
        "gradients": {name: leaf.grad.clone() for name, leaf in leaves.items()},
    }


def train(run, weights, batches):
    """Clipped AdamW on `weights` (the master, changed in place); gives what each step saw."""
    master = {name: torch.nn.Parameter(w) for name, w in weights.items()}
    groups = [
        {
            "params": [w for w in master.values() if (w.dim() == 1) == is_norm],
            "weight_decay": 0.0 if is_norm else OPTIMIZER["weight_decay"],
        }
        for is_norm in (False, True)
    ]
    optimizer = torch.optim.AdamW(
        groups,
        lr=OPTIMIZER["lr"],
        betas=(OPTIMIZER["beta1"], OPTIMIZER["beta2"]),
        eps=OPTIMIZER["eps"],
        foreach=False,
    )
    steps = []
    for batch in batches:
        before = {name: w.detach().clone() for name, w in master.items()}
        step = run(before, batch) | {"weights": before}
        squares = [g.double().pow(2).sum() for g in step["gradients"].values()]
        step["grad_norm"] = torch.stack(squares).sum().sqrt()
        # Exactly min(1, clip / norm): torch.nn.utils.clip_grad_norm_ adds 1e-6 to the norm.
        factor = (OPTIMIZER["clip"] / step["grad_norm"]).clamp(max=1.0)
        for name, w in master.items():
            w.grad = step["gradients"][name].to(w.dtype) * factor.to(w.dtype)
        optimizer.step()
        steps.append(step)
    return steps, {name: w.detach() for name, w in master.items()}
