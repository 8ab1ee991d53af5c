#!/usr/bin/env python3
"""Makes tests/golden/data/tokenizer/special_tokens.json: what transformers reads from the files beside a tokenizer.

  scripts/golden/make_special_token_goldens.py tests/golden/data/tokenizer

Each case has the files of a model's folder beside the tokenizer of llama3.json, the special tokens that templates then
get, ids of texts, and renderings of conversations with and without tools, or why there is none. Needs transformers and
tokenizers; versions stand in the file.
"""

import json
import os
import shutil
import sys
import tempfile

import tokenizers
import transformers

TEXTS = ["one two", "a<|im_end|>b", "x <mask> y <|note|> z", "<s>again</s>"]
NAMES = "bos_token eos_token unk_token sep_token pad_token cls_token mask_token image_token boi_token own".split()
SHOW_NAMES = "".join("{% if " + name + " is defined %}" + name + "={{ " + name + " }};{% endif %}" for name in NAMES)
ASKED = [{"role": "user", "content": "a"}]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]


def token(text, **flags):
    return {"content": text, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False, **flags}


def named(*names):
    return [{"name": name, "template": name + " of the config, {{ messages[0].content }}"} for name in names]


CONFIG, MAP, ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
JINJA, FOR_TOOLS = "chat_template.jinja", "additional_chat_templates/tool_use.jinja"
DECODER = {"604": token("<|im_end|>", special=True), "605": token("<|note|>", special=False, lstrip=True)}
CASES = {
    "the config alone": {CONFIG: {"bos_token": "<s>", "eos_token": token("</s>", __type="AddedToken"),
                                  "pad_token": "<mask>", "image_token": "<tool>", "chat_template": SHOW_NAMES}},
    "the map alone": {MAP: {"bos_token": token("<s>"), "eos_token": "</s>", "mask_token": "<mask>"}, JINJA: SHOW_NAMES},
    "the map over the config": {CONFIG: {"bos_token": "<mask>", "eos_token": "</s>", "pad_token": "<mask>"},
                                MAP: {"bos_token": "<s>", "pad_token": None, "sep_token": token("</s>")},
                                JINJA: SHOW_NAMES},
    "no map beside a config that lists the added tokens": {
        CONFIG: {"eos_token": "<|im_end|>", "added_tokens_decoder": DECODER}, MAP: {"eos_token": "</s>"},
        ADDED: {"<|never|>": 606}, JINJA: SHOW_NAMES},
    "tokens of added_tokens.json": {MAP: {"eos_token": "<|im_end|>"}, ADDED: {"<|im_end|>": 604, "<|note|>": 605},
                                    JINJA: SHOW_NAMES},
    "an added token that is special without a name": {
        CONFIG: {"eos_token": "</s>"}, MAP: {"extra_special_tokens": ["<|im_end|>", token("<|note|>")]},
        ADDED: {"<|im_end|>": 604, "<|note|>": 605}, JINJA: SHOW_NAMES},
    "names of the model's own": {CONFIG: {"eos_token": "</s>", "extra_special_tokens": {"own": "<tool>",
                                                                                        "boi_token": "<mask>"}},
                                 JINJA: SHOW_NAMES},
    "a list in the config": {CONFIG: {"chat_template": named("rag", "tool_use", "default")}},
    "a list without one for tools": {CONFIG: {"chat_template": named("default", "rag")}},
    "files before the config": {CONFIG: {"chat_template": named("default", "tool_use")}, JINJA: "file"},
    "a file for tools": {JINJA: "file", FOR_TOOLS: "file for {{ tools[0].function.name }}"},
}


def write(folder, name, content):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        out.write(content if isinstance(content, str) else json.dumps(content))


def read_case(goldens, files):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(os.path.join(goldens, "llama3.json"), os.path.join(folder, "tokenizer.json"))
        for name, content in files.items():
            write(folder, name, content)
        tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
        return {"files": files, "special_tokens_map": tokenizer.special_tokens_map,
                "ids": [tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS],
                "without_tools": tokenizer.apply_chat_template(ASKED, tokenize=False),
                "with_tools": tokenizer.apply_chat_template(ASKED, tools=TOOLS, tokenize=False)}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    golden = {"transformers": transformers.__version__, "tokenizers": tokenizers.__version__, "texts": TEXTS,
              "messages": ASKED, "tools": TOOLS,
              "cases": {name: read_case(sys.argv[1], files) for name, files in CASES.items()}}
    with open(os.path.join(sys.argv[1], "special_tokens.json"), "w", encoding="utf-8") as out:
        json.dump(golden, out, indent=0, ensure_ascii=True)
        out.write("\n")


main()
