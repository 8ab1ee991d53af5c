#!/usr/bin/env python3
"""Exports models of all families to GGUF and compares the files, read by llama.cpp's own library gguf, with what they
were made of: every tensor, the keys, and the tokenizers. With a program of llama.cpp (scripts/compare_llama_cpp.sh
builds one) it compares logits and greedy tokens with those of transformers, and ids of texts with strata's.

  gguf_test.py STRATA GOLDENS CONFIGS [PROGRAM]    GOLDENS is tests/golden/data; exit code 77 if there is no gguf
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import gguf
    import numpy as np
    from safetensors.numpy import load_file, save_file
except ImportError:
    print("skipped: this Python lacks gguf or safetensors (pip install gguf safetensors, and -DSTRATA_PYTHON=PYTHON)")
    sys.exit(77)

from gguf_models import CONFIG, MADE, YARN, has_window, logits_of, make_model, scaled_by_llama3
from gguf_tokenizers import BYTES, QWEN2, ROWS, TRAINED, sequence, split, types_of, variants

FAMILIES = {"mha": "llama", "gqa_tied_llama3": "llama", "odd": "llama", "biased": "llama", "mistral": "llama",
            "phi3": "phi3", "phi3_longrope": "phi3", "qwen3": "qwen3", "granite": "granite",
            "seed_oss": "seed_oss", "gemma": "gemma", "glm4": "glm4", "ministral3": "mistral3"}
REFUSED_FAMILIES = ("exaone4", "olmo3", "gemma2", "gemma3")  # whose goldens are of sizes that llama.cpp does not take
PER_LAYER = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
             "self_attn.qkv_proj": "attn_qkv", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
             "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
             "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
             "post_attention_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
             "pre_feedforward_layernorm": "ffn_norm", "post_self_attn_layernorm": "post_attention_norm",
             "post_mlp_layernorm": "post_ffw_norm"}
NORMS_OF_ATTENTION = ("olmo2", "seed_oss", "exaone4", "gemma2", "gemma3")  # whose post_attention_layernorm is of that
PAIRED = ("llama", "granite", "smollm3", "mistral3")  # they rotate neighbours, of models that rotate halves
MULTIPLIERS = {"embedding_scale": "embedding_multiplier", "residual_scale": "residual_multiplier",
               "attention.scale": "attention_multiplier", "logit_scale": "logits_scaling",
               "attn_logit_softcapping": "attn_logit_softcapping", "final_logit_softcapping": "final_logit_softcapping",
               "rope.freq_base": "rope_theta", "rope.freq_base_swa": "rope_local_base_freq"}
FACTORS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
OTHERS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
TEXTS = ["Hello world, it's 2024!", " two  spaces\nand a line\n\n", "naïve café — 東京 🚀 '", "x=1;\ty = 22333",
         "The"]


class Run:
    def __init__(self, strata, scratch):
        self.strata, self.scratch = strata, Path(scratch)

    def __call__(self, *arguments):
        return subprocess.run([self.strata, *map(str, arguments)], capture_output=True, text=True)

    def export(self, model, name, *options):
        """Returns the path of a file that was made."""
        to = self.scratch / name
        done = self("export", model, to, "--format", "gguf", *options)
        assert done.returncode == 0, (model, done.stderr)
        return to

    def refused(self, model, *words):
        done = self("export", model, self.scratch / "refused.gguf", "--format", "gguf")
        assert done.returncode == 2 and all(word in done.stderr for word in words), (words, done)
        assert not list(self.scratch.glob("*refused*")), "something was left behind"


def keys_of(reader):
    return {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}


def gguf_name(name, architecture="llama"):
    stem, end = name.rsplit(".", 1)
    if stem in OTHERS:
        return f"{OTHERS[stem]}.{end}"
    layer, rest = stem.removeprefix("model.layers.").split(".", 1)
    if architecture in NORMS_OF_ATTENTION and rest == "post_attention_layernorm":
        return f"blk.{layer}.post_attention_norm.{end}"
    return f"blk.{layer}.{PER_LAYER[rest]}.{end}"


def paired(tensor, heads):
    """The rows of heads, with dimensions i and D/2 + i side by side, as llama.cpp's llama rotates them."""
    split = tensor.reshape(heads, 2, -1, *tensor.shape[1:])
    return split.swapaxes(1, 2).reshape(tensor.shape)


def expected_tensors(folder, architecture):
    config = json.loads((folder / "config.json").read_text())
    heads = {"q_proj": config["num_attention_heads"],
             "k_proj": config.get("num_key_value_heads") or config["num_attention_heads"]}
    expected = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        kind = name.split(".")[-2]
        tensor = tensor.astype(np.float32)
        if architecture in PAIRED and kind in heads:
            tensor = paired(tensor, heads[kind])
        if architecture.startswith("gemma") and tensor.ndim == 1:
            tensor = np.float32(1) + tensor
        expected[gguf_name(name, architecture)] = tensor
    return config, expected


def bf16(values):
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return (((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << 16).astype(np.uint32).view(np.float32)


def check_tensors(file, expected, dtype):
    reader = gguf.GGUFReader(file)
    found = {tensor.name: tensor for tensor in reader.tensors}
    assert found.keys() - set(FACTORS) == expected.keys(), found.keys() ^ expected.keys()
    for name, values in expected.items():
        tensor = found[name]
        assert list(tensor.shape)[::-1] == list(values.shape), name
        if values.ndim == 1 or dtype == "f32":
            assert tensor.tensor_type == gguf.GGMLQuantizationType.F32, name
            assert np.array_equal(np.asarray(tensor.data).reshape(values.shape), values), name
        elif dtype == "q8_0" and values.shape[-1] % 32 == 0:
            reference = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0)
            assert tensor.tensor_type == gguf.GGMLQuantizationType.Q8_0, name
            assert np.array_equal(np.asarray(tensor.data).reshape(reference.shape), reference), name
        else:
            assert tensor.tensor_type == gguf.GGMLQuantizationType.BF16, name
            values_there = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(values.shape)
            assert np.array_equal(values_there, bf16(values)), name
    return reader


def check_keys(reader, config, architecture, folder):
    keys = keys_of(reader)
    head_size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    for key, value in {"general.architecture": architecture,
                       f"{architecture}.vocab_size": config["vocab_size"],
                       f"{architecture}.context_length": config["max_position_embeddings"],
                       f"{architecture}.embedding_length": config["hidden_size"],
                       f"{architecture}.block_count": config["num_hidden_layers"],
                       f"{architecture}.feed_forward_length": config["intermediate_size"],
                       f"{architecture}.attention.head_count": config["num_attention_heads"],
                       f"{architecture}.attention.head_count_kv": config.get("num_key_value_heads")
                       or config["num_attention_heads"],
                       f"{architecture}.attention.key_length": head_size,
                       f"{architecture}.attention.value_length": head_size,
                       f"{architecture}.rope.dimension_count": int(head_size * config.get("partial_rotary_factor", 1)),
                       "tokenizer.ggml.model": "none"}.items():
        assert keys[key] == value, (key, keys[key], value)
    assert np.float32(config["rms_norm_eps"]) == np.float32(keys[f"{architecture}.attention.layer_norm_rms_epsilon"])
    for key, name in MULTIPLIERS.items():
        assert name not in config or np.float32(config[name]) == np.float32(keys[f"{architecture}.{key}"]), key
    if f"{architecture}.attention.sliding_window" in keys:
        pattern = [int(has_window(config, layer)) for layer in range(config["num_hidden_layers"])]
        if not any(pattern):  # all have one that hides nothing
            pattern, config = [1] * len(pattern), {**config, "sliding_window": config["max_position_embeddings"]}
        assert keys[f"{architecture}.attention.sliding_window"] == config["sliding_window"]
        assert keys[f"{architecture}.attention.sliding_window_pattern"] == pattern
    beta = (config.get("rope_scaling") or {}).get("llama_4_scaling_beta")
    assert beta is None or np.float32(beta) == np.float32(keys[f"{architecture}.attention.temperature_scale"])
    factors = {tensor.name: tensor.data for tensor in reader.tensors if tensor.name in FACTORS}
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    wanted = {"llama3": FACTORS[:1], "longrope": FACTORS[1:]}.get(scaling.get("rope_type"), ())
    assert set(factors) == set(wanted)
    for which in ("long", "short") if len(wanted) == 2 else ():
        assert np.array_equal(factors[f"rope_factors_{which}.weight"], np.float32(scaling[f"{which}_factor"]))
    if len(wanted) == 1:
        theta = keys[f"{architecture}.rope.freq_base"]
        plain = theta ** (-np.arange(0, head_size, 2) / head_size)
        made = folder.name in MADE
        golden = (scaled_by_llama3(plain, scaling) if made
                  else load_file(folder / "expected.safetensors")["inverse_frequencies"])
        assert np.allclose(plain / factors[wanted[0]], golden, rtol=1e-6, atol=0)


# ---- llama.cpp ----

def answers(program, file, lines):
    done = subprocess.run([program, file], input="".join(f"{line}\n" for line in lines), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [np.array(line.split(), dtype=float) for line in done.stdout.splitlines()]


def check_computation(program, file, folder):
    """Logits of the first rows and greedy tokens are those of transformers; logits of a Gemma those of f64 arithmetic
    that rounds GELU to f16 as llama.cpp does, from which transformers' are up to 1e-3 away."""
    config = json.loads((folder / "config.json").read_text())
    weights = {name: values.astype(float) for name, values in load_file(folder / "model.safetensors").items()}
    golden = load_file(folder / "expected.safetensors")
    documents = [int(np.sum(row == row[0])) for row in golden["documents"][0]]  # ids of the first one in each row
    texts = [" ".join(map(str, ids[:size])) for ids, size in zip(golden["tokens"][0], documents)]
    for row, found in enumerate(answers(program, file, [f"logits {text}" for text in texts])):
        wanted = golden["huggingface_logits"][row][:documents[row]]
        if config["model_type"] == "gemma":
            wanted = logits_of(config, weights, golden["tokens"][0][row][:documents[row]])
        error = np.abs(found.reshape(wanted.shape) - wanted).max()
        assert error < 1e-4, (folder.name, row, error)
    generation = load_file(folder / "generation.safetensors")
    for i in range(2):
        prompt = " ".join(map(str, generation[f"prompt.{i}"]))
        wanted = generation[f"tokens.{i}"][:32]
        (found,) = answers(program, file, [f"greedy {len(wanted)} {prompt}"])
        assert np.array_equal(found, wanted), (folder.name, found, wanted)


def check_formulas(goldens):
    """The f64 arithmetic of a family whose golden llama.cpp does not take is that of transformers."""
    for name in REFUSED_FAMILIES:
        config = json.loads((goldens / name / "config.json").read_text())
        weights = {n: values.astype(float) for n, values in load_file(goldens / name / "model.safetensors").items()}
        golden = load_file(goldens / name / "expected.safetensors")
        row = golden["documents"][0][0]
        size = int(np.sum(row == row[0]))
        found = logits_of(config, weights, golden["tokens"][0][0][:size], f16_gelu=False)
        assert np.abs(found - golden["huggingface_logits"][0][:size]).max() < 1e-5, name


# ---- models that no golden has ----

def check_made(run, program):
    ids = np.random.default_rng(3).integers(0, CONFIG["vocab_size"], 100)
    for name, (architecture, keys) in MADE.items():
        folder = run.scratch / name
        config, weights = make_model(folder, keys)
        file = run.export(folder, f"{name}.gguf", "--dtype", "f32")
        reader = check_tensors(file, expected_tensors(folder, architecture)[1], "f32")
        check_keys(reader, config, architecture, folder)
        if program:
            (found,) = answers(program, file, ["logits " + " ".join(map(str, ids))])
            wanted = logits_of(config, weights, ids)
            assert np.abs(found.reshape(wanted.shape) - wanted).max() < 1e-4, name
            count = 32 if config["num_hidden_layers"] < 10 else 4
            (found,) = answers(program, file, [f"greedy {count} " + " ".join(map(str, ids))])
            row = list(ids)
            for _ in found:
                row.append(np.argmax(logits_of(config, weights, np.array(row))[-1]))
            assert np.array_equal(found, row[len(ids):]), (name, found, row[len(ids):])


def check_refusals(run, goldens):
    run.refused(goldens / "qwen2", "head_dim is 6", "--format hf")
    run.refused(goldens / "smollm3", "no_rope_layers says of layer 1", "--format hf")
    run.refused(goldens / "mistral_window", "sliding_window is 9", "--format hf")
    run.refused(goldens / "gemma2", "query_pre_attn_scalar is 6", "head_dim", "--format hf")
    for name, keys, words in [
            ("dynamic", {"model_type": "llama", "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, ["dynamic"]),
            ("truncate", {"model_type": "llama", "rope_scaling": {**YARN, "truncate": False}}, ["truncate is false"]),
            ("bias", {"model_type": "qwen3", "attention_bias": True}, ["attention_bias"])]:
        config, weights = make_model(run.scratch / name, keys)
        if name == "bias":
            shapes = {"q": 24, "k": 8, "v": 8, "o": 24}
            weights |= {f"model.layers.{layer}.self_attn.{which}_proj.bias": np.zeros(rows)
                        for layer in range(2) for which, rows in shapes.items()}
            save_file({n: v.astype(np.float32) for n, v in weights.items()}, run.scratch / name / "model.safetensors")
        run.refused(run.scratch / name, *words, "--format hf" if name != "dynamic" else "null")


# ---- tokenizers ----

def check_vocabulary(keys, tokenizer, model, pre):
    assert keys["tokenizer.ggml.model"] == model and keys["tokenizer.ggml.pre"] == pre, pre
    texts = {number: text for text, number in tokenizer["model"]["vocab"].items()}
    texts |= {token["id"]: token["content"] for token in tokenizer["added_tokens"]}
    types = types_of(tokenizer)
    assert keys["tokenizer.ggml.tokens"] == [texts.get(i, f"[PAD{i}]") for i in range(ROWS)]
    assert keys["tokenizer.ggml.token_type"] == [types.get(i, 5) for i in range(ROWS)]
    if model == "gpt2":
        merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
        assert keys["tokenizer.ggml.merges"] == merges
    ids = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    for key, value in {"bos_token_id": ids["<s>"], "eos_token_id": ids["</s>"], "add_bos_token": True,
                       "add_eos_token": True}.items():
        assert keys[f"tokenizer.ggml.{key}"] == value, key
    assert keys["tokenizer.chat_template"] == "{{ messages[0].content }}"


def check_ids(program, file, folder, texts):
    """Ids of texts are those of the library tokenizers."""
    from tokenizers import Tokenizer
    reference = Tokenizer.from_file(str(folder / "tokenizer.json"))
    lines = [f"ids {text}".replace("\n", "\\n") for text in texts]
    for text, found in zip(texts, answers(program, file, lines), strict=True):
        wanted = reference.encode(text).ids
        assert found.astype(int).tolist() == wanted, (folder.name, text, found, wanted)


def check_trained_tokenizers(run, program):
    """All that `strata tokenizer train` makes is known to llama.cpp."""
    text = run.scratch / "text.txt"
    text.write_text("\n".join(TEXTS * 3 + [f"It's {i * i} of the other weather there" for i in range(300)]))
    for how, pre in TRAINED.items():
        folder = run.scratch / f"trained-{how}"
        make_model(folder, {"model_type": "llama", "vocab_size": ROWS})
        done = run("tokenizer", "train", text, "--split", how, "--vocab-size", "400", "--output", folder / "tokenizer")
        assert done.returncode == 0, done.stderr
        for made in (folder / "tokenizer").iterdir():
            made.rename(folder / made.name)
        file = run.export(folder, f"trained-{how}.gguf")
        assert keys_of(gguf.GGUFReader(file))["tokenizer.ggml.pre"] == pre
        if program:
            check_ids(program, file, folder, TEXTS)


def check_tokenizers(run, goldens, program):
    for name, (tokenizer, model, pre) in variants(goldens).items():
        folder = run.scratch / f"tokenizer-{name}"
        make_model(folder, {"model_type": "llama", "vocab_size": ROWS})
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
        (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
        file = run.export(folder, f"tokenizer-{name}.gguf")
        check_vocabulary(keys_of(gguf.GGUFReader(file)), tokenizer, model, pre)
        if program:
            # Metaspace puts no space in front of one: the export warns that llama.cpp does.
            check_ids(program, file, folder, [t for t in TEXTS if name != "metaspace_first" or t[0] != " "])
    check_trained_tokenizers(run, program)
    check_unknown_tokenizers(run, goldens)


def check_unknown_tokenizers(run, goldens):
    """What llama.cpp would split otherwise is refused."""
    for name, words in {"gpt2": "add_prefix_space", "metaspace": "no tokens for bytes", "digits": "more than to split",
                        "llama2": "does not merge", "llama3": "without ignore_merges"}.items():
        folder = run.scratch / f"unknown-{name}"
        make_model(folder, {"model_type": "llama", "vocab_size": ROWS})
        tokenizer = json.loads((goldens / "tokenizer" / f"{name}.json").read_text())
        if name == "llama3":
            tokenizer["pre_tokenizer"] = sequence({"type": "Digits", "individual_digits": True}, split(QWEN2), BYTES)
            tokenizer["model"]["ignore_merges"] = False
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
        run.refused(folder, "llama.cpp cannot read this tokenizer", words)


# ---- checkpoints, and the file itself ----

def check_checkpoint(run, configs, program):
    """The files of a run's checkpoint are those of its exports as folders, and bytes are its tokens."""
    folder = run.scratch / "run"
    done = run("train", configs / "tiny-cpu.json", "--output", folder, "--set", "run.steps=2", "--set",
               "optimizer.warmup_steps=1", "--set", "run.dtype=bf16", "--set", "checkpoint.at_end=true")
    assert done.returncode == 0, done.stderr
    masters = run.scratch / "masters"
    assert run("export", folder, masters, "--dtype", "f32").returncode == 0
    expected = {}
    config = json.loads((masters / "config.json").read_text())
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    for file in masters.glob("*.safetensors"):
        for name, values in load_file(file).items():
            count = heads.get(name.split(".")[-2])
            expected[gguf_name(name)] = paired(values, count) if count else values
    for dtype in ("f32", "bf16", "q8_0"):
        file = run.export(folder, f"run-{dtype}.gguf", "--dtype", dtype)
        keys = keys_of(check_tensors(file, expected, dtype))
        assert len(keys["tokenizer.ggml.tokens"]) == 257 and keys["tokenizer.ggml.eos_token_id"] == 256
    if program:
        text = "naïve\n\n x"
        (found,) = answers(program, file, ["ids " + text.replace("\n", "\\n")])
        assert found.astype(int).tolist() == list(text.encode())


def check_replacing(run, goldens):
    file = run.export(goldens / "mha", "there.gguf")
    first = file.read_bytes()
    options = ("export", goldens / "odd", file, "--format", "gguf")
    done = run(*options)
    assert done.returncode == 2 and "--overwrite" in done.stderr and file.read_bytes() == first
    assert run(*options, "--overwrite").returncode == 0 and file.read_bytes() != first
    file.write_text("something else")
    done = run(*options, "--overwrite")
    assert done.returncode == 2 and file.read_text() == "something else", done.stderr
    damaged = run.scratch / "damaged"
    config, weights = make_model(damaged, {"model_type": "llama"})
    weights["model.norm.weight"][3] = np.nan
    save_file({name: values.astype(np.float32) for name, values in weights.items()}, damaged / "model.safetensors")
    done = run("export", damaged, run.scratch / "refused.gguf", "--format", "gguf")
    assert done.returncode == 2 and "model.norm.weight" in done.stderr, done
    assert not list(run.scratch.glob("*refused*")), "half a file was left behind"


def main():
    strata, goldens, configs = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    program = sys.argv[4] if len(sys.argv) > 4 else None
    with tempfile.TemporaryDirectory() as scratch:
        run = Run(strata, scratch)
        check_families(run, goldens, program)
        check_formulas(goldens)
        check_made(run, program)
        check_refusals(run, goldens)
        check_tokenizers(run, goldens, program)
        check_checkpoint(run, configs, program)
        check_replacing(run, goldens)
    print("GGUF files are what they were made of" + (", and llama.cpp computes them" if program else ""))


def check_families(run, goldens, program):
    for name, architecture in FAMILIES.items():
        folder = goldens / name
        config, expected = expected_tensors(folder, architecture)
        for dtype in ("f32", "bf16", "q8_0"):
            file = run.export(folder, f"{name}-{dtype}.gguf", "--dtype", dtype)
            reader = check_tensors(file, expected, dtype)
        check_keys(reader, config, architecture, folder)
        if program:
            check_computation(program, run.scratch / f"{name}-f32.gguf", folder)


if __name__ == "__main__":
    main()
