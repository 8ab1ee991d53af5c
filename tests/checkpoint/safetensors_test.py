#!/usr/bin/env python3
"""Reads checkpoints by the safetensors library itself, and their config.json by transformers where there is one.

  safetensors_test.py SAMPLE_CHECKPOINT    the program that writes them; exit code 77 if there is no safetensors
"""

import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    from safetensors import deserialize
except ImportError:
    print("skipped: this Python has no safetensors (pip install safetensors, and -DSTRATA_PYTHON=PYTHON)")
    sys.exit(77)

FORMATS = {"F64": "d", "F32": "f", "I16": "h"}
MODEL_TYPES = {"bfloat16": "BF16", "float32": "F32", "float64": "F64"}


def values(dtype, data):
    """The elements as Python numbers."""
    data = bytes(data)
    if dtype == "BF16":  # the upper half of an F32
        data = b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))
        dtype = "F32"
    return [x[0] for x in struct.iter_unpack("<" + FORMATS[dtype], data)]


def expected(name, count):
    """What sample_checkpoint writes."""
    start = sum(name.encode())
    return [(start + 31 * i) % 113 for i in range(count)]


def shapes_of(config):
    """The tensors of a LLaMA as transformers builds it."""
    width, ffn, heads = (config[k] for k in ("hidden_size", "intermediate_size", "num_attention_heads"))
    head = config.get("head_dim") or width // heads
    kv = config.get("num_key_value_heads") or heads
    shapes = {"model.embed_tokens.weight": [config["vocab_size"], width], "model.norm.weight": [width]}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = [config["vocab_size"], width]
    for layer in range(config["num_hidden_layers"]):
        own = {"self_attn.q_proj": [heads * head, width], "self_attn.k_proj": [kv * head, width],
               "self_attn.v_proj": [kv * head, width], "self_attn.o_proj": [width, heads * head],
               "mlp.gate_proj": [ffn, width], "mlp.up_proj": [ffn, width], "mlp.down_proj": [width, ffn],
               "input_layernorm": [width], "post_attention_layernorm": [width]}
        shapes.update({f"model.layers.{layer}.{name}.weight": shape for name, shape in own.items()})
    return shapes


def check_model(folder):
    config = json.loads((folder / "config.json").read_text())
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    shapes, dtype, bytes_seen = shapes_of(config), MODEL_TYPES[config["torch_dtype"]], 0
    for file in sorted(folder.glob("*.safetensors")):
        for name, tensor in deserialize(file.read_bytes()):
            assert index["weight_map"].pop(name) == file.name, name
            assert tensor["dtype"] == dtype and list(tensor["shape"]) == shapes.pop(name), name
            found = values(dtype, tensor["data"])
            assert found == expected(name, len(found)), name
            bytes_seen += len(tensor["data"])
    assert not shapes and not index["weight_map"], "a tensor is missing"
    assert index["metadata"]["total_size"] == bytes_seen
    return config


def check_state(folder):
    files = sorted(folder.glob("*.safetensors"))
    for file in files:
        raw = file.read_bytes()
        (length,) = struct.unpack("<Q", raw[:8])
        elements = int(json.loads(raw[8:8 + length])["__metadata__"]["elements"])
        for name, tensor in deserialize(raw):
            found = values(tensor["dtype"], tensor["data"])
            assert found[:elements] == expected(name, elements), f"{file}: {name}"
            assert not any(found[elements:]), f"{file}: {name}"
    return len(files)


def check_config(folder, config):
    try:
        from transformers import AutoConfig
    except ImportError:
        return "not read by transformers, which this Python does not have"
    found = AutoConfig.from_pretrained(folder)
    assert type(found).__name__ == "LlamaConfig"
    for key in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                "num_key_value_heads", "head_dim", "rms_norm_eps", "tie_word_embeddings", "initializer_range"):
        assert getattr(found, key) == config[key], key
    rope = getattr(found, "rope_parameters", None) or {"rope_theta": found.rope_theta, **(found.rope_scaling or {})}
    for key, value in {"rope_theta": config["rope_theta"], **(config["rope_scaling"] or {})}.items():
        assert rope[key] == value, key
    return "read by transformers"


with tempfile.TemporaryDirectory() as scratch:
    subprocess.run([sys.argv[1], scratch], check=True)
    checkpoints = sorted(Path(scratch).iterdir())
    assert len(checkpoints) == 4
    for checkpoint in checkpoints:
        read_config = check_model(checkpoint / "model")
        blocks = check_state(checkpoint / "state")
        assert blocks == read_config["num_hidden_layers"] + 2
        print(f"{checkpoint.name}: {blocks} blocks read, config {check_config(checkpoint / 'model', read_config)}")
