"""Tokenizers for gguf_test.py that llama.cpp reads, made of those in tests/golden/data, and how it calls them."""

import json

QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
WITH_REGEX = {**BYTES, "use_regex": True}
ROWS = 640  # of the embedding: more than any of the tokenizers has


def split(regex):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def completed(tokenizer):
    """The tokenizer with every way to cut a token into two as a merge, in the order of ids: as transformers converts a
    SentencePiece model whose scores fall with the id."""
    vocabulary = tokenizer["model"]["vocab"]
    merges = [[text[:i], text[i:]] for text in sorted(vocabulary, key=vocabulary.get) if not text.startswith("<")
              for i in range(1, len(text)) if text[:i] in vocabulary and text[i:] in vocabulary]
    return {**tokenizer, "model": {**tokenizer["model"], "merges": merges}}


def variants(goldens):
    """{name: (tokenizer.json, tokenizer.ggml.model, tokenizer.ggml.pre)}"""
    golden = {name: json.loads((goldens / "tokenizer" / f"{name}.json").read_text())
              for name in ("llama2", "llama3", "metaspace_first")}

    def changed(pre_tokenizer, **model):
        text = golden["llama3"]
        return {**text, "pre_tokenizer": pre_tokenizer or text["pre_tokenizer"], "model": {**text["model"], **model}}

    return {"llama2": (completed(golden["llama2"]), "llama", "default"),
            "metaspace_first": (completed(golden["metaspace_first"]), "llama", "default"),
            "llama3": (golden["llama3"], "gpt2", "llama-bpe"),
            "dbrx": (changed(None, ignore_merges=False), "gpt2", "dbrx"),
            "qwen2": (changed(sequence(split(QWEN2), BYTES), ignore_merges=False), "gpt2", "qwen2"),
            "gpt-2": (changed(WITH_REGEX, ignore_merges=False), "gpt2", "gpt-2"),
            "smollm": (changed(sequence({"type": "Digits", "individual_digits": True}, WITH_REGEX),
                               ignore_merges=False), "gpt2", "smollm")}


def types_of(tokenizer):
    """{id: type} of all tokens but unused ones, as llama.cpp numbers types."""
    is_llama = bool(tokenizer["model"].get("byte_fallback"))
    types = {number: 6 if is_llama and text.startswith("<0x") and len(text) == 6 else 1
             for text, number in tokenizer["model"]["vocab"].items()}
    types |= {token["id"]: 3 if token["special"] else 4 for token in tokenizer["added_tokens"]}
    if is_llama:
        types[tokenizer["model"]["vocab"]["<unk>"]] = 2
    return types


# What llama.cpp calls the ways to split of `strata tokenizer train`.
TRAINED = {"gpt2": "gpt-2", "llama3": "dbrx", "qwen2": "qwen2", "qwen35": "qwen35", "o200k": "gpt-4o",
           "tekken": "tekken"}
