#!/usr/bin/env python3
"""Compares what strata learns of conversations of three turns with what follows from texts of Jinja2: the answers, what
a template leaves to the model before them, and the text that ends a turn.

  tests/chat/compare_turns.py STRATA --templates FOLDER... --models FOLDER...

The templates are those of the families that strata trains, by their names (ENDS). Each model is a folder with
chat_template.jinja, tokenizer_config.json, and a tokenizer: here also the ids are compared, with those of `tokenizers`
or mistral_common, the loss bit of each token, and the id that ends an answer. Exit code 1 if something differs.
"""

import argparse
import json
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from compare_with_jinja import by_jinja, by_strata

# What ends an answer. A GLM has no such text: the header of the next turn does it.
ENDS = {r"^meta-llama|^llama3\.|^Llama-3": "<|eot_id|>", "Distill": "<｜end▁of▁sentence｜>", "[Mm]istral": "</s>",
        "Phi-3|phi_3": "<|end|>", "Qwen|qwen|phi_4|SmolLM3": "<|im_end|>", r"gemma-2|^gemma3?\.": "<end_of_turn>",
        "gemma-?4": "<turn|>", "granite": "<|end_of_text|>", "Seed-OSS": "<seed:eos>", "exaone": "[|endofturn|]",
        "GLM-4.6": ""}
WORDS = ["Ten minutes on foot.", "Ça dépend — 你好, 😀!", "No, it isn't: 12,345 m."]
TURNS = [message for answer in WORDS for message in ({"role": "user", "content": f"Is it far, {answer[:3]}?"},
                                                      {"role": "assistant", "content": answer})]
SYSTEM = {"role": "system", "content": "Answer in short sentences."}


def end_of(name):
    return next((end for pattern, end in ENDS.items() if re.search(pattern, name)), None)


def lines_of(source, tokens):
    """Conversations that the template takes: with a system message or without, and with thinking on, off and unsaid."""
    for messages in ([SYSTEM, *TURNS], TURNS):
        for thinking in (None, False, True) if "enable_thinking" in source else (None,):
            line = {"messages": messages, "add_generation_prompt": False, **tokens}
            if thinking is not None:
                line["chat_template_kwargs"] = {"enable_thinking": thinking}
            if "text" in by_jinja(source, line):
                yield line


def learnt(source, line, end):
    """The text and the places in it that should have loss. What stands between question and answer is the model's to
    write as far as the text that asks for an answer does not have it."""
    text, at, places = by_jinja(source, line)["text"], 0, []
    for number, message in enumerate(line["messages"]):
        if message["role"] != "assistant":
            continue
        question = line["messages"][number - 1]["content"]
        begin = text.index(message["content"], at)
        between = text[text.index(question, at) + len(question):begin]
        at = begin + len(message["content"]) + len(end)
        assert text[at - len(end):at] == end, (text, end)
        asked = by_jinja(source, {**line, "messages": line["messages"][:number], "add_generation_prompt": True})["text"]
        asks = asked[asked.rindex(question) + len(question):]
        places.append((begin - (len(between) - len(asks) if between.startswith(asks) else 0), at))
    return text, places


def report(name, count, wrong):
    print(f"{name}: {count} conversations, {len(wrong)} differ" + "".join(f"\n  {case}" for case in wrong[:1]), flush=True)
    return count > 0 and not wrong


def compare_template(render, path):
    """Whether strata learns the same texts."""
    source, end = path.read_text(encoding="utf-8"), end_of(path.name)
    lines = list(lines_of(source, {"bos_token": "<s>", "eos_token": "</s>"}))
    wrong = []
    for line, found in zip(lines, by_strata(render, path, lines), strict=True):
        text, places = learnt(source, line, end)
        if found.get("text") != text or found["loss"] != [text[begin:stop] for begin, stop in places]:
            wrong.append((line, places, found))
    return report(path.name, len(lines), wrong)


def by_tokenizers(file, text, places, _):
    from tokenizers import Tokenizer
    encoding = Tokenizer.from_file(str(file)).encode(text, add_special_tokens=False)
    return encoding.ids, [int(any(begin < b and a < end for a, b in places)) for begin, end in encoding.offsets]


def by_mistral_common(file, _, __, line):
    from mistral_common.protocol.instruct.request import ChatCompletionRequest
    from mistral_common.protocol.instruct.validator import ValidationMode
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
    tokenizer = MistralTokenizer.from_file(str(file), mode=ValidationMode.finetuning)
    ids = tokenizer.encode_chat_completion(ChatCompletionRequest(messages=line["messages"])).tokens
    inner = tokenizer.instruct_tokenizer.tokenizer
    asks, ends = inner.get_special_token("[/INST]"), inner.eos_id
    loss, inside = [], False
    for token in ids:
        loss.append(int(inside))
        inside = token == asks or inside and token != ends
    return ids, loss


def tokenized(strata, model, line):
    """The ids of the conversation, their loss bits, and the ids that end answers."""
    with tempfile.TemporaryDirectory() as folder:
        records, output = Path(folder) / "turns.jsonl", Path(folder) / "turns.bin"
        records.write_text(json.dumps(line))
        subprocess.run([strata, "tokenize", records, "--tokenizer", model, "--output", output], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        data = output.read_bytes()
        ends = json.loads((Path(f"{output}.tokenizer") / "generation_config.json").read_text())["eos_token_id"]
    width, count = struct.unpack_from("<IQ", data, 12)
    ids = struct.unpack_from(f"<{count}{'HI'[width // 4]}", data, 64)
    bits = data[64 + -(-count * width // 8) * 8:]
    return list(ids), [bits[i // 8] >> i % 8 & 1 for i in range(count)], ends


def compare_model(strata, model):
    source, end = (model / "chat_template.jinja").read_text(), end_of(model.name)
    config = json.loads((model / "tokenizer_config.json").read_text())
    tekken = model / "tekken.json"
    wrong, count = [], 0
    for line in lines_of(source, {"bos_token": config["bos_token"], "eos_token": config["eos_token"]}):
        if tekken.exists() and line["messages"][0] == SYSTEM:
            continue  # the template leaves it out where mistral_common writes it
        text, places = learnt(source, line, end)
        reference, file = (by_mistral_common, tekken) if tekken.exists() else (by_tokenizers, model / "tokenizer.json")
        ids, loss = reference(file, text, places, line)
        record = {key: line[key] for key in ("messages", "chat_template_kwargs") if key in line}
        found, bits, ends = tokenized(strata, model, record)
        last = ids[len(loss) - 1 - loss[::-1].index(1)]
        count += 1
        if found != ids or bits != loss or last not in (ends if isinstance(ends, list) else [ends]):
            wrong.append((text, ids, found, loss, bits, last, ends))
    return report(model, count, wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata")
    parser.add_argument("--templates", nargs="*", type=Path, default=[])
    parser.add_argument("--models", nargs="*", type=Path, default=[])
    options = parser.parse_args()
    render = str(Path(options.strata).parent / "render_chat")
    paths = [path for folder in options.templates for path in sorted(folder.rglob("*.jinja"))]
    equal = [compare_template(render, path) for path in paths if end_of(path.name) is not None]
    equal += [compare_model(options.strata, model) for model in options.models]
    print(f"{sum(equal)} of {len(equal)} are learnt as they should be")
    return 0 if all(equal) else 1


if __name__ == "__main__":
    sys.exit(main())
