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
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
GEMMA = {"hidden_activation": "gelu_pytorch_tanh", "hidden_act": "gelu_pytorch_tanh", "query_pre_attn_scalar": 8}


def kinds(layers, *full):
    """The kinds of so many layers, of which those have no window."""
    return ["full_attention" if layer in full else "sliding_attention" for layer in range(layers)]


MADE = {"qwen2": ("qwen2", {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}),
        "linear": ("llama", {"model_type": "llama", "rope_scaling": {"rope_type": "linear", "factor": 2.5}}),
        "yarn": ("llama", {"model_type": "llama", "rope_scaling": YARN}),
        "yarn_attention": ("qwen3", {"model_type": "qwen3", "rope_scaling": {**YARN, "attention_factor": 1.3}}),
        "longrope": ("llama", {"model_type": "llama", "rope_scaling": LONGROPE}),
        "olmo2": ("olmo2", {"model_type": "olmo2", "tie_word_embeddings": False}),
        "smollm3": ("smollm3", {"model_type": "smollm3", "num_hidden_layers": 5}),
        "exaone4": ("exaone4", {"model_type": "exaone4", "rope_scaling": LLAMA3, "sliding_window": None}),
        "exaone4_windows": ("exaone4", {"model_type": "exaone4", "num_hidden_layers": 64, "sliding_window": 20,
                                        "layer_types": kinds(64, 1, 5)}),
        "olmo3": ("olmo2", {"model_type": "olmo3", "tie_word_embeddings": False, "rope_theta": 5e5, "rope_scaling": YARN,
                            "num_hidden_layers": 3, "sliding_window": 20, "layer_types": kinds(3, 1)}),
        "gemma2": ("gemma2", {**GEMMA, "model_type": "gemma2", "num_hidden_layers": 3, "sliding_window": 20,
                              "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}),
        "gemma2_full": ("gemma2", {**GEMMA, "model_type": "gemma2", "attn_logit_softcapping": 50.0,
                                   "final_logit_softcapping": 30.0, "sliding_window": 300, "layer_types": kinds(2, 0, 1)}),
        "gemma2_27b": ("gemma2", {**GEMMA, "model_type": "gemma2", "num_hidden_layers": 46, "hidden_size": 36,
                                  "query_pre_attn_scalar": 12, "attn_logit_softcapping": 2.0, "sliding_window": 20,
                                  "final_logit_softcapping": 3.0}),
        "gemma3": ("gemma3", {**GEMMA, "model_type": "gemma3_text", "num_hidden_layers": 3, "sliding_window": 20,
                              "layer_types": kinds(3, 1), "rope_local_base_freq": 10.0,
                              "rope_scaling": {"rope_type": "linear", "factor": 8.0}}),
        "gemma3_yarn": ("gemma3", {**GEMMA, "model_type": "gemma3_text", "num_hidden_layers": 3, "sliding_window": 20,
                                   "layer_types": kinds(3, 1), "rope_local_base_freq": 10.0, "rope_scaling": YARN})}
ARCHITECTURES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
                 "olmo2": "Olmo2ForCausalLM", "smollm3": "SmolLM3ForCausalLM",
                 "exaone4": "Exaone4ForCausalLM", "olmo3": "Olmo3ForCausalLM", "gemma2": "Gemma2ForCausalLM",
                 "gemma3_text": "Gemma3ForCausalLM"}
NORMS_AFTER = ("olmo2", "olmo3", "exaone4")  # families that normalise what attention and the MLP give, and not what they
NORMS_AROUND = ("gemma2", "gemma3_text")     # read, or both
HEADS_NORMED, ALL_NORMED = ("qwen3", "exaone4", "gemma3_text"), ("olmo2", "olmo3")


def make_model(folder, other_keys):
    """Writes a model with seeded weights and returns its config and weights."""
    config = {**CONFIG, "architectures": [ARCHITECTURES[other_keys["model_type"]]], **other_keys}
    width, ffn, size = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    is_gemma = config["model_type"].startswith("gemma")
    random = np.random.default_rng(7)
    weights = {"model.embed_tokens.weight": random.normal(size=(config["vocab_size"], width)),
               "model.norm.weight": random.uniform(0.5, 1.5, width)}
    for layer in range(config["num_hidden_layers"]):
        linears = {"self_attn.q_proj": (queries, width), "self_attn.k_proj": (keys, width),
                   "self_attn.v_proj": (keys, width), "self_attn.o_proj": (width, queries),
                   "mlp.gate_proj": (ffn, width), "mlp.up_proj": (ffn, width), "mlp.down_proj": (width, ffn)}
        family = config["model_type"]
        norms = {"input_layernorm": width, "post_attention_layernorm": width}
        if family in NORMS_AFTER:
            norms = {"post_attention_layernorm": width, "post_feedforward_layernorm": width}
        if family in NORMS_AROUND:
            norms |= {"pre_feedforward_layernorm": width, "post_feedforward_layernorm": width}
        if family in ALL_NORMED:
            norms |= {"self_attn.q_norm": queries, "self_attn.k_norm": keys}
        if family in HEADS_NORMED:
            norms |= {"self_attn.q_norm": size, "self_attn.k_norm": size}
        prefix = f"model.layers.{layer}."
        for name, shape in linears.items():
            weights[f"{prefix}{name}.weight"] = random.normal(size=shape) * shape[1] ** -0.5
        for name, length in norms.items():
            weights[f"{prefix}{name}.weight"] = random.uniform(0.5, 1.5, length) - is_gemma
            if is_gemma and name == "post_feedforward_layernorm":
                # A gate near the middle of two f16 values may be rounded either way (gated()), so MLPs add little.
                weights[f"{prefix}{name}.weight"] = random.uniform(0.005, 0.015, length) - 1
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


def scaled_by_llama3(frequencies, scaling):
    """Frequencies as those of Llama 3.1: long waves are stretched by the factor, and those between by a part of it."""
    turns = scaling["original_max_position_embeddings"] * frequencies / (2 * np.pi)
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    kept = np.clip((turns - low) / (high - low), 0, 1)
    return kept * frequencies + (1 - kept) * frequencies / scaling["factor"]


def rotation(config, positions, has_window):
    """Cosines and sines [positions, D/2], by the formulas of Peng et al. 2023 where they are scaled."""
    size, theta, family = config["head_dim"], config["rope_theta"], config["model_type"]
    scaling = config.get("rope_scaling") or {"rope_type": "default"}
    if has_window and family == "gemma3_text":
        theta = config["rope_local_base_freq"]
    if has_window and family in ("gemma3_text", "olmo3"):
        scaling = {"rope_type": "default"}
    frequencies, magnitude = theta ** (-np.arange(0, size, 2) / size), 1.0
    if scaling["rope_type"] == "linear":
        frequencies = frequencies / scaling["factor"]
    if scaling["rope_type"] == "llama3":
        frequencies = scaled_by_llama3(frequencies, scaling)
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


def has_window(config, layer):
    """Whether the layer has a window: as layer_types says, or else every other one of a Gemma 2."""
    types = config.get("layer_types")
    if types is None:
        return config["model_type"] == "gemma2" and layer % 2 == 0
    return types[layer] == "sliding_attention"


def rotates(config, layer):
    if config["model_type"] == "smollm3":
        return (layer + 1) % 4 != 0
    return config["model_type"] != "exaone4" or not config["sliding_window"] or has_window(config, layer)


def gated(config, gate, f16_gelu):
    """The gate's activation. llama.cpp rounds to f16 before and after GELU, of which it has a table."""
    if config["hidden_act"] == "silu":
        return gate / (1 + np.exp(-gate))
    gate = gate.astype(np.float16).astype(float) if f16_gelu else gate
    gelu = gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3))) / 2
    return gelu.astype(np.float16).astype(float) if f16_gelu else gelu


def capped(values, cap):
    return values if cap is None else cap * np.tanh(values / cap)


def logits_of(config, weights, ids, f16_gelu=True):
    size, heads, groups = config["head_dim"], config["num_attention_heads"], config["num_key_value_heads"]
    family = config["model_type"]
    is_gemma = family.startswith("gemma")
    distance = np.arange(len(ids))[:, None] - np.arange(len(ids))

    def norm(x, name):
        gain = weights[f"{name}.weight"] + is_gemma
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + config["rms_norm_eps"]) * gain

    def before(x, name):
        return x if family in NORMS_AFTER else norm(x, name)

    def after(x, name):
        return norm(x, name) if family in NORMS_AFTER + NORMS_AROUND else x

    def linear(x, name):
        return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0)

    def turned(x, name, count, layer):
        x = norm(x, name) if family in ALL_NORMED else x
        x = x.reshape(len(ids), count, size)
        x = norm(x, name) if family in HEADS_NORMED else x
        if not rotates(config, layer):
            return x
        low, high = x[..., :size // 2], x[..., size // 2:]
        c, s = (values[:, None] for values in rotation(config, len(ids), has_window(config, layer)))
        return np.concatenate([low * c - high * s, high * c + low * s], -1)

    embedding = weights["model.embed_tokens.weight"]
    x = embedding[ids] * (np.sqrt(config["hidden_size"]) if is_gemma else 1)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        y = before(x, at + "input_layernorm")
        q = turned(linear(y, at + "self_attn.q_proj"), at + "self_attn.q_norm", heads, layer)
        k = turned(linear(y, at + "self_attn.k_proj"), at + "self_attn.k_norm", groups, layer)
        v = linear(y, at + "self_attn.v_proj").reshape(len(ids), groups, size)
        k, v = k.repeat(heads // groups, 1), v.repeat(heads // groups, 1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(config.get("query_pre_attn_scalar", size))
        scores = capped(scores, config.get("attn_logit_softcapping"))
        sees = config["sliding_window"] if has_window(config, layer) else len(ids)
        scores[:, (distance < 0) | (distance >= sees)] = -np.inf
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        attended = np.einsum("hqk,khd->qhd", shares, v).reshape(len(ids), -1)
        x = x + after(linear(attended, at + "self_attn.o_proj"), at + "post_attention_layernorm")
        y = before(x, at + ("pre_feedforward_layernorm" if family in NORMS_AROUND else "post_attention_layernorm"))
        inner = gated(config, linear(y, at + "mlp.gate_proj"), f16_gelu) * linear(y, at + "mlp.up_proj")
        x = x + after(linear(inner, at + "mlp.down_proj"), at + "post_feedforward_layernorm")
    logits = norm(x, "model.norm") @ weights.get("lm_head.weight", embedding).T
    return capped(logits, config.get("final_logit_softcapping"))
