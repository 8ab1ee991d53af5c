"""Goldens of tiny whole models: one folder per model.

config.json, model.safetensors   a Hugging Face directory (weights f32, exact in bf16)
expected.safetensors             what training it must give:
  tokens, positions, documents, targets [steps, rows, T] i32   the global batch of each step;
      `documents` numbers the documents of a row, targets are -100 where ignored
  inverse_frequencies [D/2]        logits [rows, T, V], token_loss [rows, T]      batch 0
  loss, grad_norm [steps]          of each step, before clipping
  grad/<name>, final/<name>        gradient of batch 0; weights after the last step
  optimizer.*                      lr, beta1, beta2, eps, weight_decay (not on norms and biases), clip

All of that is f64, from small_llama (llama.py). The class of transformers in f64 must agree with it to
HUGGING_FACE_TOLERANCE, which is what its inner f32 arithmetic allows; its logits of batch 0 are
kept as huggingface_logits (f32). "<key>.f32_error" and "<key>.bf16_error" are the relative errors
that the class of transformers makes in that dtype: per step for loss and grad_norm, else of the 2-norm;
those of final/<name> are relative to the change of the weight, not to the weight. "grad" and
"final" without a name are over all tensors together. The bf16 run keeps an f32 master.
"""

import json
from dataclasses import dataclass

import torch
from safetensors.torch import save_file

from common import (
    DTYPES,
    draw,
    generator,
    integers,
    inverse_frequencies,
    relative_error,
    require,
)
from llama import IGNORE, OPTIMIZER, HuggingFaceRunner, SmallRunner, head_dim, rotary_width, train

STEPS = 5
HUGGING_FACE_TOLERANCE = 2e-6


@dataclass
class Model:
    config: dict
    rows: int = 6
    tokens: int = 12
    packed: bool = False
    uneven_targets: bool = False  # one row of each batch has no target, another one lacks some
    seed: int | None = None  # else 3000 and its place in MODELS


def config(vocab, hidden, ffn, layers, heads, kv_heads, **extra):
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "initializer_range": 0.02,
        "intermediate_size": ffn,
        "max_position_embeddings": 512,
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": kv_heads,
        "rms_norm_eps": 1e-5,
        "rope_scaling": None,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "use_cache": False,
        "vocab_size": vocab,
    } | extra


LLAMA3 = {
    "factor": 8.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 64,
    "rope_type": "llama3",
}
LONGROPE = {"rope_type": "longrope", "short_factor": [1.0, 1.25, 2.0], "long_factor": [1.0, 3.5, 16.0]}
# As in the files of Ministral 3. No row is longer than the original length, up to which queries are not scaled.
MINISTRAL3 = {
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "factor": 4.0,
    "llama_4_scaling_beta": 0.1,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 448,
    "rope_type": "yarn",
}
# The place of a model gives its seed: a new one goes to the end.
MODELS = {
    "mha": Model(config(67, 32, 48, 2, 4, 4)),
    "gqa_tied_llama3": Model(
        config(
            64,
            16,
            24,
            2,
            4,
            2,
            head_dim=64,
            rope_theta=500.0,
            rope_scaling=LLAMA3,
            tie_word_embeddings=True,
        ),
        tokens=16,
    ),
    "odd": Model(
        config(131, 15, 37, 3, 3, 1, head_dim=6, rms_norm_eps=1e-6),
        rows=5,
        tokens=13,
        uneven_targets=True,
    ),
    "packed": Model(config(80, 24, 40, 2, 3, 3), tokens=16, packed=True),
    "mistral": Model(
        config(
            72,
            20,
            28,
            2,
            4,
            2,
            architectures=["MistralForCausalLM"],
            model_type="mistral",
            head_dim=8,
            rope_theta=1e6,
            sliding_window=None,
        ),
        tokens=16,
    ),
    "phi3": Model(
        config(
            75,
            24,
            36,
            2,
            4,
            2,
            architectures=["Phi3ForCausalLM"],
            model_type="phi3",
            pad_token_id=None,
            sliding_window=None,
        ),
    ),
    "qwen2": Model(
        config(
            70,
            20,
            28,
            2,
            4,
            2,
            architectures=["Qwen2ForCausalLM"],
            model_type="qwen2",
            head_dim=6,
            rms_norm_eps=1e-6,
            rope_theta=1e6,
            sliding_window=64,
            use_sliding_window=False,
            tie_word_embeddings=True,
        ),
        tokens=16,
        packed=True,
    ),
    "biased": Model(
        config(66, 16, 22, 2, 4, 2, rope_theta=100.0, attention_bias=True, mlp_bias=True),
    ),
    "qwen3": Model(
        config(
            73,
            20,
            26,
            2,
            4,
            2,
            architectures=["Qwen3ForCausalLM"],
            model_type="qwen3",
            head_dim=8,
            rms_norm_eps=1e-6,
            rope_theta=1e6,
            sliding_window=None,
            use_sliding_window=False,
        ),
        tokens=16,
        packed=True,
    ),
    "granite": Model(
        config(
            69,
            20,
            28,
            2,
            4,
            2,
            architectures=["GraniteForCausalLM"],
            model_type="granite",
            head_dim=6,
            rms_norm_eps=1e-6,
            rope_theta=1e5,
            tie_word_embeddings=True,
            embedding_multiplier=3.0,
            residual_multiplier=0.4,
            attention_multiplier=0.3,
            logits_scaling=1.7,
        ),
        tokens=16,
        packed=True,
    ),
    "olmo2": Model(
        config(
            71,
            20,
            26,
            2,
            4,
            2,
            architectures=["Olmo2ForCausalLM"],
            model_type="olmo2",
            head_dim=6,
            pad_token_id=None,
            rms_norm_eps=1e-6,
            rope_theta=5e5,
        ),
        tokens=16,
        packed=True,
    ),
    "seed_oss": Model(
        config(
            67,
            20,
            26,
            2,
            4,
            2,
            architectures=["SeedOssForCausalLM"],
            model_type="seed_oss",
            attention_bias=True,
            attention_out_bias=False,
            head_dim=6,
            rope_theta=50.0,
            pad_token_id=None,
            attention_dropout=0.0,
            residual_dropout=0.0,
            rms_norm_eps=1e-6,
        ),
    ),
    "gemma": Model(
        config(
            74,
            20,
            28,
            2,
            4,
            1,
            architectures=["GemmaForCausalLM"],
            model_type="gemma",
            hidden_act="gelu_pytorch_tanh",
            head_dim=10,
            pad_token_id=None,
            rms_norm_eps=1e-6,
            tie_word_embeddings=True,
        ),
        tokens=16,
    ),
    "smollm3": Model(
        config(
            71,
            20,
            26,
            3,
            4,
            2,
            architectures=["SmolLM3ForCausalLM"],
            model_type="smollm3",
            head_dim=6,
            rms_norm_eps=1e-6,
            rope_theta=2e6,
            tie_word_embeddings=True,
            no_rope_layers=[1, 0, 1],
            pad_token_id=None,
        ),
        tokens=16,
        packed=True,
        seed=3009,
    ),
    "phi3_longrope": Model(
        config(
            74,
            32,
            30,
            2,
            4,
            2,
            architectures=["Phi3ForCausalLM"],
            model_type="phi3",
            pad_token_id=None,
            sliding_window=None,
            tie_word_embeddings=True,
            partial_rotary_factor=0.75,
            max_position_embeddings=4096,
            original_max_position_embeddings=512,
            rope_scaling=LONGROPE,
        ),
        tokens=16,
        seed=3010,
    ),
    "mistral_window": Model(
        config(
            76,
            20,
            26,
            2,
            4,
            2,
            architectures=["MistralForCausalLM"],
            model_type="mistral",
            head_dim=8,
            rope_theta=1e4,
            sliding_window=9,
        ),
        tokens=16,
    ),
    "qwen3_window": Model(
        config(
            70,
            20,
            26,
            3,
            4,
            2,
            architectures=["Qwen3ForCausalLM"],
            model_type="qwen3",
            head_dim=6,
            rms_norm_eps=1e-6,
            use_sliding_window=True,
            sliding_window=6,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            tie_word_embeddings=True,
        ),
        tokens=16,
        packed=True,
    ),
    "glm4": Model(
        config(
            71,
            20,
            26,
            2,
            4,
            2,
            architectures=["Glm4ForCausalLM"],
            model_type="glm4",
            attention_bias=True,
            head_dim=12,
            partial_rotary_factor=0.5,
            pad_token_id=None,
        ),
        tokens=16,
        packed=True,
    ),
    "exaone4": Model(
        config(
            70,
            20,
            26,
            2,
            4,
            2,
            architectures=["Exaone4ForCausalLM"],
            model_type="exaone4",
            head_dim=6,
            rope_theta=1e6,
            rope_scaling=LLAMA3,
            sliding_window=9,
            layer_types=["sliding_attention", "full_attention"],
        ),
        tokens=16,
    ),
    "olmo3": Model(
        config(
            74,
            20,
            26,
            3,
            4,
            2,
            architectures=["Olmo3ForCausalLM"],
            model_type="olmo3",
            head_dim=6,
            pad_token_id=None,
            rope_theta=5e5,
            rope_scaling=LLAMA3,
            sliding_window=6,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        ),
        tokens=16,
        packed=True,
    ),
    "gemma2": Model(
        config(
            77,
            20,
            28,
            2,
            4,
            2,
            architectures=["Gemma2ForCausalLM"],
            model_type="gemma2",
            hidden_act="gelu_pytorch_tanh",
            hidden_activation="gelu_pytorch_tanh",
            head_dim=10,
            pad_token_id=None,
            rms_norm_eps=1e-6,
            tie_word_embeddings=True,
            query_pre_attn_scalar=6,
            attn_logit_softcapping=2.0,
            final_logit_softcapping=3.0,
            sliding_window=5,
            layer_types=["sliding_attention", "full_attention"],
        ),
        tokens=16,
    ),
    "gemma3": Model(
        config(
            72,
            20,
            28,
            3,
            4,
            2,
            architectures=["Gemma3ForCausalLM"],
            model_type="gemma3_text",
            hidden_act="gelu_pytorch_tanh",
            hidden_activation="gelu_pytorch_tanh",
            head_dim=8,
            pad_token_id=None,
            rms_norm_eps=1e-6,
            tie_word_embeddings=True,
            query_pre_attn_scalar=6,
            rope_theta=1e6,
            rope_local_base_freq=100.0,
            rope_scaling={"rope_type": "linear", "factor": 8.0},
            sliding_window=4,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        ),
        tokens=16,
        packed=True,
    ),
    "ministral": Model(
        config(
            74,
            20,
            26,
            3,
            4,
            2,
            architectures=["MinistralForCausalLM"],
            model_type="ministral",
            head_dim=8,
            rms_norm_eps=1e-6,
            sliding_window=5,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        ),
        tokens=16,
        seed=3101,
    ),
    "ministral3": Model(
        config(
            77,
            20,
            28,
            2,
            4,
            2,
            architectures=["Ministral3ForCausalLM"],
            model_type="ministral3",
            head_dim=8,
            max_position_embeddings=1792,
            pad_token_id=None,
            rope_scaling=MINISTRAL3,
        ),
        seed=3102,
    ),
}


def biased(c, name):
    """Whether the model has a bias of this part of a layer."""
    if not name.endswith("_proj"):
        return False
    if c["model_type"] == "qwen2":
        return name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    if name == "self_attn.o_proj" and c["model_type"] in ("seed_oss", "glm4"):
        return c.get("attention_out_bias", False)
    return c["attention_bias"] if name.startswith("self_attn.") else c["mlp_bias"]


def draw_weights(c, rng):
    """Weights by Hugging Face name; gains near 1, matrices so that activations keep their size, biases small."""
    hidden, ffn, dim = c["hidden_size"], c["intermediate_size"], head_dim(c)
    queries, keys = c["num_attention_heads"] * dim, c["num_key_value_heads"] * dim
    linears = {
        "self_attn.q_proj": (queries, hidden),
        "self_attn.k_proj": (keys, hidden),
        "self_attn.v_proj": (keys, hidden),
        "mlp.gate_proj": (ffn, hidden),
        "mlp.up_proj": (ffn, hidden),
    }
    if c["model_type"] == "phi3":
        linears = {
            "self_attn.qkv_proj": (queries + 2 * keys, hidden),
            "mlp.gate_up_proj": (2 * ffn, hidden),
        }
    if c["model_type"] == "glm4":
        del linears["mlp.gate_proj"], linears["mlp.up_proj"]
        linears["mlp.gate_up_proj"] = (2 * ffn, hidden)
    shapes = {"model.embed_tokens.weight": (c["vocab_size"], hidden)}
    for layer in range(c["num_hidden_layers"]):
        of_layer = {
            "input_layernorm": (hidden,),
            "self_attn.o_proj": (hidden, queries),
            "post_attention_layernorm": (hidden,),
            "mlp.down_proj": (hidden, ffn),
            **linears,
        }
        if c["model_type"] in ("qwen3", "exaone4", "gemma3_text"):
            of_layer |= {"self_attn.q_norm": (dim,), "self_attn.k_norm": (dim,)}
        if c["model_type"] in ("olmo2", "olmo3"):
            of_layer |= {"self_attn.q_norm": (queries,), "self_attn.k_norm": (keys,)}
        if c["model_type"] in ("olmo2", "olmo3", "exaone4"):
            of_layer["post_feedforward_layernorm"] = of_layer.pop("input_layernorm")
        if c["model_type"] in ("gemma2", "gemma3_text"):
            of_layer |= {"pre_feedforward_layernorm": (hidden,), "post_feedforward_layernorm": (hidden,)}
        if c["model_type"] == "glm4":
            of_layer |= {"post_self_attn_layernorm": (hidden,), "post_mlp_layernorm": (hidden,)}
        at = f"model.layers.{layer}."
        shapes |= {f"{at}{name}.weight": shape for name, shape in of_layer.items()}
        shapes |= {f"{at}{name}.bias": shape[:1] for name, shape in of_layer.items() if biased(c, name)}
    shapes["model.norm.weight"] = (hidden,)
    if not c["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (c["vocab_size"], hidden)
    return {
        name: (
            draw(rng, *shape, std=0.1, mean=0.0 if name.endswith(".bias") or c["model_type"].startswith("gemma") else 1.0)
            if len(shape) == 1
            else draw(rng, *shape, std=shape[1] ** -0.5)
        )
        for name, shape in shapes.items()
    }


def draw_batch(model, step, rng):
    """One global batch; rows of T + 1 tokens give T inputs and their targets."""
    rows, length = model.rows, model.tokens + 1
    tokens = integers(rng, 0, model.config["vocab_size"], rows, length)
    documents = torch.zeros(rows, length, dtype=torch.int64)
    if model.packed:
        documents = (torch.rand(rows, length, generator=rng) < 0.3).cumsum(1)
        documents = documents - documents[:, :1]
    positions = torch.arange(length).repeat(rows, 1)
    first = torch.ones(rows, 1, dtype=torch.bool)
    starts = torch.cat((first, documents.diff(dim=1) != 0), dim=1)
    positions = positions - torch.where(starts, positions, 0).cummax(1).values
    targets = torch.where(documents[:, 1:] == documents[:, :-1], tokens[:, 1:], IGNORE)
    if model.uneven_targets:
        targets[step % rows] = IGNORE
        targets[(step + 2) % rows, :4] = IGNORE
    batch = {
        "tokens": tokens[:, :-1],
        "positions": positions[:, :-1],
        "documents": documents[:, :-1],
        "targets": targets,
    }
    return {name: value.contiguous() for name, value in batch.items()}


def trajectory(steps, key):
    return torch.stack([step[key].double() for step in steps])


def check_against_hugging_face(name, folder, model, batches, steps):
    """The class of transformers in f64, given the weights of each step, must see what small_llama saw."""
    run = HuggingFaceRunner(folder, model.config, torch.float64)
    theirs = [run(step["weights"], batch) for step, batch in zip(steps, batches)]
    worst = 0.0
    for a, b in zip(theirs, steps):
        pairs = [(a[key], b[key]) for key in ("logits", "token_loss", "loss")]
        pairs += [(a["gradients"][n], b["gradients"][n]) for n in b["weights"]]
        worst = max([worst] + [relative_error(x, y).item() for x, y in pairs])
    print(f"{name}: transformers in f64 differs by {worst:.1e}")
    require(worst < HUGGING_FACE_TOLERANCE, f"{name}: Hugging Face differs by {worst:.1e}")
    return theirs[0]["logits"]


def flat(tensors):
    return torch.cat([tensors[name].double().flatten() for name in sorted(tensors)])


def errors(model, folder, weights, batches, steps, final):
    """Relative errors of transformers in f32 and bf16 against the f64 reference."""
    tensors = {}
    for label, dtype in DTYPES.items():
        run = HuggingFaceRunner(folder, model.config, dtype)
        low_steps, low_final = train(run, {n: w.float() for n, w in weights.items()}, batches)
        for key in ("loss", "grad_norm"):
            reference = trajectory(steps, key)
            tensors[f"{key}.{label}_error"] = (trajectory(low_steps, key) / reference - 1).abs()
        for key in ("logits", "token_loss"):
            tensors[f"{key}.{label}_error"] = relative_error(low_steps[0][key], steps[0][key])
        low_gradients, gradients = low_steps[0]["gradients"], steps[0]["gradients"]
        changes = {n: final[n] - w for n, w in weights.items()}
        low_changes = {n: low_final[n] - w for n, w in weights.items()}
        for kind, low, reference in (
            ("grad", low_gradients, gradients),
            ("final", low_changes, changes),
        ):
            tensors[f"{kind}.{label}_error"] = relative_error(flat(low), flat(reference))
            for name in weights:
                error = relative_error(low[name], reference[name])
                tensors[f"{kind}/{name}.{label}_error"] = error
    return tensors


def make_model(name, model, seed, folder):
    folder.mkdir(parents=True, exist_ok=True)
    rng = generator(seed)
    weights = draw_weights(model.config, rng)
    batches = [draw_batch(model, step, rng) for step in range(STEPS)]
    (folder / "config.json").write_text(json.dumps(model.config, indent=2) + "\n")
    save_file(
        {n: w.float() for n, w in weights.items()},
        folder / "model.safetensors",
        metadata={"format": "pt"},
    )

    run = SmallRunner(model.config)
    steps, final = train(run, {n: w.clone() for n, w in weights.items()}, batches)
    norms = trajectory(steps, "grad_norm")
    print(f"{name}: {sum(w.numel() for w in weights.values())} parameters,", end=" ")
    print(f"losses {trajectory(steps, 'loss').tolist()}, norms {norms.tolist()}")
    require(bool((norms > OPTIMIZER["clip"]).all()), f"{name}: a step is not clipped")
    hf_logits = check_against_hugging_face(name, folder, model, batches, steps)

    c = model.config
    tensors = {k: torch.stack([b[k] for b in batches]).to(torch.int32) for k in batches[0]}
    for key, value in OPTIMIZER.items():
        tensors[f"optimizer.{key}"] = torch.tensor([value], dtype=torch.float64)
    tensors |= {key: trajectory(steps, key) for key in ("loss", "grad_norm")}
    tensors |= {key: steps[0][key] for key in ("logits", "token_loss")}
    tensors |= {f"grad/{n}": g for n, g in steps[0]["gradients"].items()}
    tensors |= {f"final/{n}": w for n, w in final.items()}
    tensors["huggingface_logits"] = hf_logits.float()
    tensors["inverse_frequencies"] = inverse_frequencies(
        rotary_width(c), c["rope_theta"], c["rope_scaling"]
    )
    tensors |= errors(model, folder, weights, batches, steps, final)
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "expected.safetensors")


def make(folder):
    for place, (name, model) in enumerate(MODELS.items()):
        make_model(name, model, model.seed or 3000 + place, folder / name)
