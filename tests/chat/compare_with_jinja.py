#!/usr/bin/env python3
"""Renders chat templates by Jinja2, as transformers sets it up, and by strata, and says where the texts differ.

  tests/chat/compare_with_jinja.py FOLDER... [--render build/cpu-release/render_chat] [--show] [--but NAME...]

Each FOLDER holds templates, *.jinja. A template counts as equal if all conversations have the same text in both, or are
refused by both. Where a template fails or writes Python's notation, Jinja2's text of the same conversation in plain
texts counts as well (docs/fine-tuning.md#conversations). --show prints the first difference of each; --but leaves out
templates whose names begin so. Needs transformers and jinja2. scripts/compare_vocabularies.sh runs it on templates that
it fetches, since they have licences of their own.
"""

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from transformers.utils.chat_template_utils import render_jinja_template

ROOT = Path(__file__).resolve().parent.parent.parent
NOW_S = 1767225600  # 1 January 2026

SYSTEM = {"role": "system", "content": "You answer in short sentences. "}
QUESTION = {"role": "user", "content": " Why is the sky blue?\n"}
ANSWER = {"role": "assistant", "content": "  Air scatters blue light more than red.\n"}
UNICODE = {"role": "user", "content": "Ça va, \u00e9l\u00e8ve? \u4f60\u597d \U0001f600 \"quoted\" <b>&amp;</b> 'x'\u00a0"}
THOUGHT = {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nYes."}
REASONED = {"role": "assistant", "content": "Yes.", "reasoning_content": "The user wants a yes."}
TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "Its name, e.g. \"K\u00f6ln\""},
        "unit": {"type": "string", "enum": ["C", "F"]},
        "days": {"type": "integer"}},
        "required": ["city"]}}}
CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"id": "call00001", "type": "function",
     "function": {"name": "get_weather", "arguments": {"city": "K\u00f6ln", "days": 2, "exact": True}}}]}
CALLS = {"role": "assistant", "content": None, "tool_calls": CALL["tool_calls"] + [
    {"id": "call00002", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Bonn"}}}]}
SPOKEN_CALL = dict(CALL, content="I look it up.")
TEXT_CALL = {"role": "assistant", "tool_calls": [
    {"id": "call00001", "type": "function",
     "function": {"name": "get_weather", "arguments": "{\"city\": \"K\u00f6ln\"}"}}]}
RESULT = {"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": "{\"degrees\": 21.5}"}
RESULT_2 = dict(RESULT, tool_call_id="call00002")
LATER_CALL = dict(SPOKEN_CALL, tool_calls=[dict(CALL["tool_calls"][0], id="call00003")])
RESULT_3 = dict(RESULT, tool_call_id="call00003")
PARTS = {"role": "user", "content": [{"type": "text", "text": "One part, "}, {"type": "text", "text": "and another."}]}
EMPTY = {"role": "assistant", "content": ""}

TALKS = [
    [QUESTION], [SYSTEM, QUESTION], [QUESTION, ANSWER], [SYSTEM, QUESTION, ANSWER],
    [QUESTION, ANSWER, UNICODE], [SYSTEM, QUESTION, ANSWER, UNICODE, ANSWER],
    [UNICODE, ANSWER, QUESTION, ANSWER, QUESTION, ANSWER],
    [QUESTION, THOUGHT, QUESTION, THOUGHT], [QUESTION, REASONED, QUESTION, REASONED],
    [QUESTION, CALL, RESULT], [SYSTEM, QUESTION, CALL, RESULT, ANSWER],
    [QUESTION, CALLS, RESULT, RESULT_2, ANSWER, QUESTION], [QUESTION, TEXT_CALL, RESULT, ANSWER],
    [QUESTION, SPOKEN_CALL, RESULT, LATER_CALL, RESULT_3, ANSWER],
    [PARTS, ANSWER], [QUESTION, EMPTY, QUESTION], [ANSWER], [SYSTEM], [],
    [QUESTION, QUESTION], [QUESTION, {"role": "strange", "content": "?"}],
    [{"role": "developer", "content": "Be kind."}, QUESTION, ANSWER],
]


def conversations():
    for talk, tools, prompt in itertools.product(TALKS, (None, [TOOL], [TOOL, TOOL]), (False, True)):
        line = {"messages": talk, "add_generation_prompt": prompt, "bos_token": "<s>", "eos_token": "</s>",
                "now_s": NOW_S}
        yield dict(line, tools=tools) if tools else line
    for key, value in (("enable_thinking", False), ("enable_thinking", True), ("reasoning_effort", "low"),
                       ("thinking", True), ("tools_in_user_message", False)):
        yield {"messages": [SYSTEM, QUESTION, REASONED, QUESTION, ANSWER], "add_generation_prompt": True,
               "bos_token": "<s>", "eos_token": "</s>", "now_s": NOW_S, "chat_template_kwargs": {key: value}}


class FixedTime:
    """Lets transformers' strftime_now take the time that strata is told."""

    def __enter__(self):
        import datetime
        import transformers.utils.chat_template_utils as utils

        class Clock(datetime.datetime):
            @classmethod
            def now(cls, tz=None):
                return cls.fromtimestamp(NOW_S)
        self.module, self.known = utils, utils.datetime
        utils.datetime = Clock

    def __exit__(self, *_):
        self.module.datetime = self.known


def by_jinja(source, line):
    try:
        texts, _ = render_jinja_template(
            [line["messages"]], tools=line.get("tools"), chat_template=source,
            add_generation_prompt=line["add_generation_prompt"],
            **{"bos_token": line["bos_token"], "eos_token": line["eos_token"], **line.get("chat_template_kwargs", {})})
        return {"text": texts[0]}
    except Exception as error:  # whatever a template may raise
        return {"error": f"{type(error).__name__}: {error}"}


def with_arguments(line, change):
    """The conversation with each tool call's arguments changed."""
    def changed(call):
        return {**call, "function": {**call["function"], "arguments": change(call["function"]["arguments"])}}
    messages = [{**message, "tool_calls": [changed(call) for call in message["tool_calls"]]}
                if message.get("tool_calls") else message for message in line["messages"]]
    return {**line, "messages": messages}


def with_texts(line):
    """The conversation with parts joined, and null as an empty text."""
    messages = []
    for message in line["messages"]:
        content = message.get("content", "")
        if isinstance(content, list):
            content = "".join(part["text"] for part in content)
        messages.append({**message, "content": content or ""})
    return {**line, "messages": messages}


def expected_of(source, line):
    """The answers that strata may give: mostly one."""
    line = with_arguments(line, lambda arguments: json.loads(arguments) if isinstance(arguments, str) else arguments)
    first = by_jinja(source, line)
    if "text" in first and not re.search(r"None|\{'", first["text"]):
        return [first]
    as_json = partial(with_arguments, change=partial(json.dumps, ensure_ascii=False))
    return [first] + [by_jinja(source, other) for other in (with_texts(line), as_json(line), as_json(with_texts(line)))]


def by_strata(render, path, lines):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    run = subprocess.run([render, str(path)], input=text, capture_output=True, text=True)
    if run.returncode != 0:
        return [{"error": run.stderr.strip()}] * len(lines)
    return [json.loads(answer) for answer in run.stdout.splitlines()]


def difference(expected, found):
    if "text" not in expected or "text" not in found:
        return f"jinja: {expected}\n    strata: {found}"
    a, b = expected["text"], found["text"]
    at = next((i for i in range(min(len(a), len(b))) if a[i] != b[i]), min(len(a), len(b)))
    return f"from character {at} on\n    jinja:  {a[max(0, at - 30):at + 60]!r}\n    strata: {b[max(0, at - 30):at + 60]!r}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--render", default=str(ROOT / "build/cpu-release/render_chat"))
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--but", nargs="*", default=[])
    options = parser.parse_args()
    lines = list(conversations())
    paths = sorted(path for folder in options.folders for path in folder.rglob("*.jinja")
                   if not path.name.startswith(tuple(options.but)))
    equal = 0
    for path in paths:
        source = path.read_text(encoding="utf-8")
        with FixedTime():
            expected = [expected_of(source, line) for line in lines]
        found = by_strata(options.render, path, lines)
        wrong = [i for i, answer in enumerate(found)
                 if answer.get("text") not in [taken.get("text") for taken in expected[i]]]
        refused = sum("text" not in answer for answer in found)
        print(f"{path.name}: {'EQUAL' if not wrong else f'{len(wrong)} DIFFER'} ({len(lines) - refused} texts, {refused} refused)")
        equal += not wrong
        if wrong and options.show:
            print("   ", json.dumps(lines[wrong[0]])[:300], "\n   ", difference(expected[wrong[0]][-1], found[wrong[0]]))
    print(f"{equal} of {len(paths)} templates are equal")
    return 0 if equal == len(paths) else 1


if __name__ == "__main__":
    os.environ["TZ"] = "UTC"
    time.tzset()
    sys.exit(main())
