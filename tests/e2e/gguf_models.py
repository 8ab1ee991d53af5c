"""Models with seeded weights for gguf_test.py, and their logits in f64: what each family computes, by its formulas, in
numpy."""

import json

import numpy as np
from safetensors.numpy import save_file

CONFIG = {"hidden_size": 24, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 3,
          "num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": 256, "rms_norm_eps": 1e-6,
          "rope_theta": 100.0, "hidden_act": "silu", "vocab_size": 64, "tie_word_embeddings": True}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 4.0, "beta_slow": 1.0}
LONGROPE = {"rope_type": "longrope", "original_max_position_embeddings": 32, "short_factor": [1.0, 1.5, 2.0, 4.0],
            "long_factor": [1.0, 2.0, 7.0, 40.0]}  # the test's rows are longer than 32
MADE = {"qwen2": ("qwen2", {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}),
        "linear": ("llama", {"model_type": "llama", "rope_scaling": {"rope_type": "linear", "factor": 2.5}}),
        "yarn": ("llama", {"model_type": "llama", "rope_scaling": YARN}),
        "yarn_attention": ("qwen3", {"model_type": "qwen3", "rope_scaling": {**YARN, "attention_factor": 1.3}}),
        "longrope": ("llama", {"model_type": "llama", "rope_scaling": LONGROPE}),
        "olmo2": ("olmo2", {"model_type": "olmo2", "tie_word_embeddings": False}),
        "smollm3": ("smollm3", {"model_type": "smollm3", "num_hidden_layers": 5})}
ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
                 "olmo2": "Olmo2ForCausalLM", "smollm3": "SmolLM3ForCausalLM"}


def make_model(folder, other_keys):
    """Writes a model with seeded weights and returns its config and weights."""
    config = {**CONFIG, "architectures": [ARCHITECTURES[other_keys["model_type"]]], **other_keys}
    width, ffn, size = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    random = np.random.default_rng(7)
    weights = {"model.embed_tokens.weight": random.normal(size=(config["vocab_size"], width)),
               "model.norm.weight": random.uniform(0.5, 1.5, width)}
    for layer in range(config["num_hidden_layers"]):
        linears = {"self_attn.q_proj": (queries, width), "self_attn.k_proj": (keys, width),
                   "self_attn.v_proj": (keys, width), "self_attn.o_proj": (width, queries),
                   "mlp.gate_proj": (ffn, width), "mlp.up_proj": (ffn, width), "mlp.down_proj": (width, ffn)}
        norms = {"input_layernorm": width, "post_attention_layernorm": width}
        if config["model_type"] == "olmo2":
            norms = {"post_attention_layernorm": width, "post_feedforward_layernorm": width,
                     "self_attn.q_norm": queries, "self_attn.k_norm": keys}
        if config["model_type"] == "qwen3":
            norms |= {"self_attn.q_norm": size, "self_attn.k_norm": size}
        prefix = f"model.layers.{layer}."
        for name, shape in linears.items():
            weights[f"{prefix}{name}.weight"] = random.normal(size=shape) * shape[1] ** -0.5
        for name, length in norms.items():
            weights[f"{prefix}{name}.weight"] = random.uniform(0.5, 1.5, length)
        if config["model_type"] == "qwen2":
            for name in ("q", "k", "v"):
                rows = linears[f"self_attn.{name}_proj"][0]
                weights[f"{prefix}self_attn.{name}_proj.bias"] = random.normal(size=rows)
    if not config["tie_word_embeddings"]:
        weights["lm_head.weight"] = random.normal(size=(config["vocab_size"], width))
    weights = {name: values.astype(np.float32) for name, values in weights.items()}
    folder.mkdir()
    save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return config, {name: values.astype(np.float64) for name, values in weights.items()}


def rotation(config, positions):
    """Cosines and sines [positions, D/2], by the formulas of Peng et al. 2023 where they are scaled."""
    size, theta = config["head_dim"], config["rope_theta"]
    frequencies, magnitude = theta ** (-np.arange(0, size, 2) / size), 1.0
    scaling = config.get("rope_scaling") or {"rope_type": "default"}
    if scaling["rope_type"] == "linear":
        frequencies = frequencies / scaling["factor"]
    if scaling["rope_type"] == "longrope":
        original = scaling["original_max_position_embeddings"]
        frequencies = frequencies / scaling["long_factor" if positions > original else "short_factor"]
        magnitude = np.sqrt(1 + np.log(config["max_position_embeddings"] / original) / np.log(original))
    if scaling["rope_type"] == "yarn":
        first, last = (size * np.log(scaling["original_max_position_embeddings"] / (turns * 2 * np.pi)) /
                       (2 * np.log(theta)) for turns in (scaling["beta_fast"], scaling["beta_slow"]))
        first, last = max(np.floor(first), 0), min(np.ceil(last), size - 1)
        slowed = np.clip((np.arange(size // 2) - first) / max(last - first, 0.001), 0, 1)
        frequencies = slowed * frequencies / scaling["factor"] + (1 - slowed) * frequencies
        magnitude = scaling.get("attention_factor", 0.1 * np.log(scaling["factor"]) + 1)
    angles = np.arange(positions)[:, None] * frequencies
    return magnitude * np.cos(angles), magnitude * np.sin(angles)


def gated(config, gate):
    """The gate's activation. llama.cpp rounds to f16 before and after GELU, of which it has a table."""
    if config["hidden_act"] == "silu":
        return gate / (1 + np.exp(-gate))
    gate = gate.astype(np.float16).astype(float)
    gelu = gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3))) / 2
    return gelu.astype(np.float16).astype(float)


def logits_of(config, weights, ids):
    size, heads, groups = config["head_dim"], config["num_attention_heads"], config["num_key_value_heads"]
    family = config["model_type"]
    cos, sin = rotation(config, len(ids))

    def norm(x, name):
        gain = weights[f"{name}.weight"] + (family == "gemma")
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + config["rms_norm_eps"]) * gain

    def before(x, name):
        return x if family == "olmo2" else norm(x, name)

    def after(x, name):
        return norm(x, name) if family == "olmo2" else x

    def linear(x, name):
        return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0)

    def turned(x, name, count, rotates):
        x = norm(x, name) if family == "olmo2" else x
        x = x.reshape(len(ids), count, size)
        x = norm(x, name) if family == "qwen3" else x
        low, high = x[..., :size // 2], x[..., size // 2:]
        c, s = cos[:, None], sin[:, None]
        return np.concatenate([low * c - high * s, high * c + low * s], -1) if rotates else x

    embedding = weights["model.embed_tokens.weight"]
    x = embedding[ids] * (np.sqrt(config["hidden_size"]) if family == "gemma" else 1)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        rotates = family != "smollm3" or (layer + 1) % 4 != 0
        y = before(x, at + "input_layernorm")
        q = turned(linear(y, at + "self_attn.q_proj"), at + "self_attn.q_norm", heads, rotates)
        k = turned(linear(y, at + "self_attn.k_proj"), at + "self_attn.k_norm", groups, rotates)
        v = linear(y, at + "self_attn.v_proj").reshape(len(ids), groups, size)
        k, v = k.repeat(heads // groups, 1), v.repeat(heads // groups, 1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(size)
        scores[:, np.triu(np.ones((len(ids), len(ids)), bool), 1)] = -np.inf
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        attended = np.einsum("hqk,khd->qhd", shares, v).reshape(len(ids), -1)
        x = x + after(linear(attended, at + "self_attn.o_proj"), at + "post_attention_layernorm")
        y = before(x, at + "post_attention_layernorm")
        inner = gated(config, linear(y, at + "mlp.gate_proj")) * linear(y, at + "mlp.up_proj")
        x = x + after(linear(inner, at + "mlp.down_proj"), at + "post_feedforward_layernorm")
    return norm(x, "model.norm") @ weights.get("lm_head.weight", embedding).T
