#!/usr/bin/env python3
"""From a base model and a file of chats to a model that stops, for every built-in template, also where the markers are
tokens that were added; and from nothing to a model that transformers reads. What is exported is read by transformers'
own classes, which need no torch.

  chat_model_test.py STRATA TOKENIZER_JSON    exit code 77 if there is no transformers
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import jinja2  # noqa: F401  apply_chat_template takes it
    from transformers import AutoConfig, AutoTokenizer, GenerationConfig
except ImportError as error:
    print(f"skipped: {error} (pip install transformers jinja2, and -DSTRATA_PYTHON=PYTHON)")
    sys.exit(77)

# The token that ends an answer, by each template's public description.
ENDS = {"chatml": "<|im_end|>", "llama2": "</s>", "llama3": "<|eot_id|>", "mistral": "</s>"}
MARKERS = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>"]
ANSWER = "the answer is yes"
MODEL = {"vocab_size": 640, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
         "num_attention_heads": 4, "max_position_embeddings": 256}
SCHEDULE = {"schedule": {"rows": 4}, "checkpoint": {"at_end": True},
            "optimizer": {"lr": 0.01, "gradient_dtype": "f32"}}


def write(file, value):
    file.write_text(json.dumps(value))
    return str(file)


def question(i):
    return {"role": "user", "content": f"Say {i}"}


class Check:
    def __init__(self, strata, tokenizer, scratch):
        self.strata, self.scratch = strata, scratch
        self.tokenizer = scratch / "tokenizer"
        self.tokenizer.mkdir()
        tree = json.loads(Path(tokenizer).read_text())
        first = 1 + max([*tree["model"]["vocab"].values(), *(token["id"] for token in tree["added_tokens"])])
        tree["added_tokens"] += [{"id": first + i, "content": marker, "special": True, "single_word": False,
                                  "lstrip": False, "rstrip": False, "normalized": False}
                                 for i, marker in enumerate(MARKERS)]
        write(self.tokenizer / "tokenizer.json", tree)
        write(self.tokenizer / "tokenizer_config.json",
              {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"})
        self.ids = {token["content"]: token["id"] for token in tree["added_tokens"]}
        self.chats = scratch / "chats.jsonl"
        self.chats.write_text("".join(
            json.dumps({"messages": [question(i), {"role": "assistant", "content": ANSWER}]}) + "\n"
            for i in range(300)))

    def run(self, *arguments):
        done = subprocess.run([self.strata, *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode == 0, f"strata {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}"
        return done

    def train(self, name, model, data, steps, samples=None, **rows):
        config = {"run": {"steps": steps, "backend": "cpu", "dtype": "f32", "output": str(self.scratch / name),
                          **(samples or {})},
                  "model": model, "data": {"train": str(data), "sequence_length": 64, **rows}, **SCHEDULE}
        return self.run("train", write(self.scratch / f"{name}.json", config))

    def from_nothing(self):
        """A new model leaves with the tokenizer of model.tokenizer, and with bos and eos; it is the base of the rest."""
        text = self.scratch / "text.txt"
        text.write_text("Say yes. " * 400)
        data = self.scratch / "text.bin"
        self.run("tokenize", text, "--tokenizer", self.tokenizer, "--output", data)
        self.train("new", {"tokenizer": str(self.tokenizer), **MODEL}, data, 1)
        base = self.scratch / "base"
        self.run("export", self.scratch / "new", base)
        config = AutoConfig.from_pretrained(base)
        assert (config.bos_token_id, config.eos_token_id) == (self.ids["<s>"], self.ids["</s>"]), config
        assert GenerationConfig.from_pretrained(base).eos_token_id == self.ids["</s>"]
        tokenizer = AutoTokenizer.from_pretrained(base)
        assert (tokenizer.bos_token, tokenizer.eos_token) == ("<s>", "</s>")
        ours = self.run("tokenizer", "encode", self.tokenizer, text).stdout.split()
        assert tokenizer.encode(text.read_text(), add_special_tokens=False) == [int(i) for i in ours]
        return base

    def template(self, base, name):
        data = self.scratch / f"{name}.bin"
        self.run("tokenize", self.chats, "--tokenizer", base, "--chat-template", name, "--output", data)
        asked_of_run = {"messages": [question(7)]}
        done = self.train(name, {"path": str(base)}, data, 70, {"sample_every": 70, "sample_prompts": [asked_of_run]},
                          document_mask=True, packing=True)
        assert f"strata chat {self.scratch / name}," in done.stderr, done.stderr
        model = self.scratch / f"{name}-model"
        self.run("export", self.scratch / name, model)

        end = self.ids[ENDS[name]]
        ends = GenerationConfig.from_pretrained(model).eos_token_id
        assert (ends if isinstance(ends, list) else [ends]) == list(dict.fromkeys([self.ids["</s>"], end])), ends
        assert (model / "chat_template.jinja").read_text() + "\n" == self.run("chat-template", name).stdout
        for folder in (model, self.scratch / name):
            assert self.run("chat-template", folder).stdout == self.run("chat-template", name).stdout
        tokenizer = AutoTokenizer.from_pretrained(model)
        asked = tokenizer.apply_chat_template([question(7)], add_generation_prompt=True, tokenize=True,
                                              return_dict=False)
        sample = json.loads((self.scratch / name / "samples.jsonl").read_text())
        assert sample["prompt"] == asked_of_run and sample["prompt_tokens"] == len(asked), sample
        assert sample["finish_reason"] == "stop" and sample["tokens"] < 64, sample
        own = AutoTokenizer.from_pretrained(self.scratch / name / "tokenizer")
        assert own.apply_chat_template([question(7)], add_generation_prompt=True, tokenize=True,
                                       return_dict=False) == asked
        # Neither the run nor what it leaves needs what it began with.
        gone = [file.rename(file.with_name("gone " + file.name)) for file in
                (base, data, data.with_name(data.name + ".tokenizer"))]
        for folder in (self.scratch / name, model):
            line = json.loads(self.run("generate", folder, "--chat", "--prompt", question(7)["content"],
                                       "--max-tokens", 40, "--json", "--logprobs").stdout)
            assert line["finish_reason"] == "stop" and line["ids"][-1] == end, line
            assert line["text"].strip() == ANSWER, line
            assert line["prompt_tokens"] == len(asked), (line, asked)
            # Drawn on past its end, the turn is still ended by a stop that is a special token.
            stopped = json.loads(self.run("generate", folder, "--chat", "--prompt", question(7)["content"], "--stop",
                                          ENDS[name], "--ignore-eos", "--max-tokens", 40, "--json").stdout)
            assert (stopped["text"], stopped["tokens"]) == (line["text"], line["tokens"]), stopped
            said = subprocess.run([self.strata, "chat", str(folder)], input=question(7)["content"] + "\n",
                                  capture_output=True, text=True, check=True)
            assert said.stdout.strip() == ANSWER, said.stdout
        for file in gone:
            file.rename(file.with_name(file.name.removeprefix("gone ")))

    def added_tokens(self, tied):
        """Markers of chats become tokens as transformers adds them, and the model learns to end its turn with one."""
        name, markers = f"added-{tied}", ["<|im_start|>", "<|im_end|>"]
        plain = self.scratch / f"{name}-plain"
        plain.mkdir()
        tree = json.loads((self.tokenizer / "tokenizer.json").read_text())
        tree["added_tokens"] = [token for token in tree["added_tokens"] if token["content"] not in MARKERS]
        write(plain / "tokenizer.json", tree)
        write(plain / "tokenizer_config.json", json.loads((self.tokenizer / "tokenizer_config.json").read_text()))
        own = 1 + max(token["id"] for token in tree["added_tokens"])
        text, data = self.scratch / "text.txt", self.scratch / f"{name}.bin"
        self.run("tokenize", text, "--tokenizer", plain, "--output", data)
        self.train(f"{name}-new", {"tokenizer": str(plain), **MODEL, "vocab_size": own, "tie_word_embeddings": tied},
                   data, 1)
        base, words = self.scratch / f"{name}-base", self.scratch / f"{name}-words"
        self.run("export", self.scratch / f"{name}-new", base)
        self.run("tokenizer", "add", base, *markers, "--output", words)

        theirs = AutoTokenizer.from_pretrained(base)
        theirs.add_special_tokens({"additional_special_tokens": markers})
        ours = AutoTokenizer.from_pretrained(words)
        assert len(ours) == len(theirs) == own + len(markers), (len(ours), len(theirs))
        assert ours.all_special_tokens == theirs.all_special_tokens, ours.all_special_tokens
        added = [json.loads(each.backend_tokenizer.to_str())["added_tokens"] for each in (ours, theirs)]
        assert added[0] == added[1], added
        chat = f"<|im_start|>user\n{question(3)['content']}<|im_end|>\n"
        assert ours.encode(chat) == theirs.encode(chat)

        self.run("tokenize", self.chats, "--tokenizer", words, "--chat-template", "chatml", "--output", data)
        self.train(name, {"path": str(base), "tokenizer": str(words), "vocab_size": len(theirs)}, data, 70,
                   document_mask=True, packing=True)
        model = self.scratch / f"{name}-model"
        self.run("export", self.scratch / name, model)
        config = AutoConfig.from_pretrained(model)
        assert (config.vocab_size, config.tie_word_embeddings) == (len(theirs), tied), config
        end = theirs.convert_tokens_to_ids("<|im_end|>")
        assert GenerationConfig.from_pretrained(model).eos_token_id == [self.ids["</s>"], end]
        exported = AutoTokenizer.from_pretrained(model)
        assert exported.encode(chat) == theirs.encode(chat)
        assert exported.decode([end], skip_special_tokens=True) == ""
        line = json.loads(self.run("generate", model, "--chat", "--prompt", question(7)["content"], "--max-tokens", 40,
                                   "--json", "--logprobs").stdout)
        assert line["finish_reason"] == "stop" and line["ids"][-1] == end, line
        assert line["text"].strip() == ANSWER, line

    def all(self):
        base = self.from_nothing()
        for tied in (False, True):
            self.added_tokens(tied)
        for name in ENDS:
            self.template(base, name)
        print(f"{len(ENDS)} templates: answers stop")


with tempfile.TemporaryDirectory() as scratch_folder:
    Check(sys.argv[1], sys.argv[2], Path(scratch_folder)).all()
